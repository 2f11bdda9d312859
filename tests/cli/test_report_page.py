"""The page of --report in a browser. Exit status 77: there is no Chromium."""

from __future__ import annotations

import os
import shutil
import unittest
from pathlib import Path
from typing import List

from browser import Browser, find_browser
from program import ROOT, WEIGHTS, ProgramTest, make_pair, run, run_tests, scaled_pairs

BROWSER = find_browser()

# Pictures below the window are loaded when they are scrolled to; here all of them at once.
ALL_PICTURES = """Promise.all([...document.images].map(async image => {
  image.loading = 'eager';
  await image.decode();
  return image.naturalWidth;
}))"""

NAMES = "[...document.querySelectorAll('#gallery .pair')].map(card => card.dataset.name)"

# Pairs of names in one chart that lie over each other.
OVERLAPS = """[...document.querySelectorAll('svg')].flatMap(chart => {
  const texts = [...chart.querySelectorAll('text')];
  return texts.flatMap((one, i) => texts.slice(i + 1)
    .filter(other => {
      const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
      return a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
    })
    .map(other => one.textContent + ' / ' + other.textContent));
})"""


@unittest.skipUnless(BROWSER, "no Chromium is installed")
class ReportPage(ProgramTest):
    def setUp(self) -> None:
        super().setUp()
        scaled_pairs(ROOT / "examples", self.folder, 3)
        make_pair(self.folder, "10 <b>W\u00f6rter & more")
        for name in ("broken", os.fsdecode(b"bytes \xff")):
            (self.folder / f"rgb/{name}.png").write_bytes(b"no picture")
            shutil.copy(self.folder / "depth/0.png", self.folder / f"depth/{name}.png")
        page = self.folder / "page.html"
        long_name = self.folder / f"{'w' * 120}.pt"
        long_name.symlink_to(Path(WEIGHTS).resolve())
        done = run(
            *self.inputs(), "--out", self.out, "--size", "64", "--weights", long_name,
            "--report", page, "--repeat", "1", "--warmup", "0", weights=False,
        )  # fmt: skip
        self.expect(done, 1, "4 written, 2 failed")
        self.browser = Browser(BROWSER)
        self.addCleanup(self.browser.close)
        self.page = page
        self.browser.open(page)

    def choose(self, field: str, value: str) -> List[str]:
        """Sets a field as a hand would; the names that are then shown."""
        event = "change" if field == "order" else "input"
        self.browser.run(
            f"{{const field = document.getElementById('{field}'); field.value = '{value}';"
            f" field.dispatchEvent(new Event('{event}'));}}"
        )
        return self.browser.run(NAMES)

    def times(self) -> List[float]:
        return self.browser.run(NAMES.replace("card.dataset.name", "Number(card.dataset.time)"))

    def test_the_page(self) -> None:
        with self.subTest("every picture is there"):
            widths = self.browser.run(ALL_PICTURES)
            self.assertEqual(len(widths), 4 * 4)
            self.assertTrue(all(width > 0 for width in widths), widths)
        with self.subTest("failures come first, with their reasons"):
            names = self.browser.run(NAMES)
            self.assertEqual(names[:2], ["broken", "bytes \ufffd"])
            self.assertEqual(names[2:], ["0", "1", "10 <b>W\u00f6rter & more", "2"])
            reasons = self.browser.run(
                "[...document.querySelectorAll('.pair .error')].map(text => text.textContent)"
            )
            self.assertEqual(len(reasons), 2)
            self.assertIn("broken.png", reasons[0])
        with self.subTest("cards are sorted"):
            self.assertEqual(
                self.choose("order", "name"),
                ["0", "1", "2", "10 <b>W\u00f6rter & more", "broken", "bytes \ufffd"],
            )
            self.choose("order", "time")
            self.assertEqual(self.times(), sorted(self.times(), reverse=True))
            self.assertEqual(self.choose("order", "failures"), names)
        with self.subTest("cards are filtered"):
            self.assertEqual(self.choose("filter", "W\u00d6RT"), ["10 <b>W\u00f6rter & more"])
            self.assertEqual(self.choose("filter", ""), names)
        with self.subTest("the charts are drawn"):
            self.assertEqual(self.browser.run("document.querySelectorAll('svg').length"), 2)
            self.assertGreater(self.browser.run("document.querySelectorAll('circle').length"), 20)
            self.assertEqual(self.browser.run(OVERLAPS), [])
        with self.subTest("it fits a telephone"):
            self.browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=400, height=800, deviceScaleFactor=1, mobile=True,
            )  # fmt: skip
            width = self.browser.run("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 400)
        with self.subTest("no complaint in the console"):
            for event in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.assertEqual(self.browser.told(event), [])
        with self.subTest("nothing but the page is loaded"):
            asked = {
                item["request"]["url"] for item in self.browser.told("Network.requestWillBeSent")
            }
            outside = [url for url in asked if not url.startswith("data:")]
            self.assertEqual(outside, [self.page.as_uri()])


if __name__ == "__main__":
    run_tests(__name__)
