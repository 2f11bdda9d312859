#include "html/page.h"

#include <algorithm>
#include <cstdio>

#include "html/charts.h"
#include "html/encoding.h"

namespace hdfnet::app {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8884; --bad: #c33; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; overflow-wrap: anywhere; }
pre { border: 1px solid var(--line); padding: .8rem; overflow: auto; max-height: 24rem; font-size: 12px; }
#gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(430px, 100%), 1fr)); gap: .8rem; }
.pair { border: 1px solid var(--line); border-radius: 6px; padding: .6rem; }
.pair.failed, .pair.unpaired { border-color: var(--bad); }
.pair h3 { font-size: .9rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
.pictures { display: grid; grid-template-columns: repeat(4, 1fr); gap: 4px; }
.pictures img { width: 100%; } figure { margin: 0; } figcaption, .facts { font-size: .75rem; opacity: .75; }
.error { color: var(--bad); overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
.grid { stroke: var(--line); } .roof { stroke: currentColor; stroke-width: 2; }
.compute { fill: #2a7fba; } .memory { fill: #d98a1f; } .latency { fill: #8a8a8a; } .unknown { fill: #6a9; }
.key span { padding: 0 .5rem; color: #fff; border-radius: 3px; margin-right: .4rem; font-size: .8rem; }
.key .compute { background: #2a7fba; } .key .memory { background: #d98a1f; } .key .latency { background: #777; }
)";

// Sorts and filters the cards that are already there; without scripts they stand failures first.
constexpr const char* script = R"(
const gallery = document.getElementById('gallery');
const cards = [...gallery.children];
const orders = {
  failures: (a, b) => b.dataset.bad - a.dataset.bad || a.dataset.index - b.dataset.index,
  name: (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, {numeric: true}),
  time: (a, b) => b.dataset.time - a.dataset.time,
  most: (a, b) => b.dataset.mean - a.dataset.mean,
  least: (a, b) => a.dataset.mean - b.dataset.mean,
};
const order = document.getElementById('order'), filter = document.getElementById('filter');
function show() {
  const wanted = filter.value.toLowerCase();
  gallery.replaceChildren(...cards
    .filter(card => card.dataset.name.toLowerCase().includes(wanted))
    .sort(orders[order.value]));
}
order.addEventListener('change', show);
filter.addEventListener('input', show);
)";

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

bool is_bad(const Result& result) {
  return result.status == Status::failed || result.status == Status::unpaired;
}

double total_ms(const PairTimes& times) {
  return times.decode + times.preprocess + times.network + times.postprocess + times.encode;
}

std::string figure(const std::string& address, const char* caption) {
  return "<figure><img loading=\"lazy\" alt=\"" + std::string(caption) + "\" src=\"" + address +
         "\"><figcaption>" + caption + "</figcaption></figure>";
}

std::string facts(const PageEntry& entry) {
  const Result& result = entry.result;
  std::string text = name(result.status);
  if (result.width > 0) {
    text += ", " + std::to_string(result.width) + "x" + std::to_string(result.height);
  }
  if (result.status == Status::written) {
    text += ", " + result.precision + format(", %.1f ms", total_ms(result.times));
  }
  if (entry.thumbnails) text += format(", mean saliency %.3f", entry.thumbnails->mean_saliency);
  return text;
}

std::string card(const PageEntry& entry, std::size_t index) {
  const double mean = entry.thumbnails ? entry.thumbnails->mean_saliency : 0;
  std::string html = "<div class=\"pair " + std::string(name(entry.result.status)) +
                     "\" data-index=\"" + std::to_string(index) + "\" data-bad=\"" +
                     (is_bad(entry.result) ? "1" : "0") + "\" data-name=\"" +
                     html_text(entry.name) + "\" data-time=\"" +
                     format("%.3f", total_ms(entry.result.times)) + "\" data-mean=\"" +
                     format("%.5f", mean) + "\"><h3>" + html_text(entry.name) + "</h3>\n";
  if (!entry.result.error.empty()) {
    html += "<p class=\"error\">" + html_text(entry.result.error) + "</p>\n";
  }
  if (entry.thumbnails) {
    html += "<div class=\"pictures\">" + figure(entry.thumbnails->rgb, "RGB") +
            figure(entry.thumbnails->depth, "depth") + figure(entry.thumbnails->map, "map") +
            figure(entry.thumbnails->overlay, "overlay") + "</div>\n";
  }
  return html + "<div class=\"facts\">" + html_text(facts(entry)) + "</div></div>\n";
}

std::string gallery_section(const std::vector<PageEntry>& entries) {
  std::vector<std::size_t> order(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return is_bad(entries[a].result) > is_bad(entries[b].result);
  });
  const auto shown = std::count_if(entries.begin(), entries.end(), [](const PageEntry& entry) {
    return entry.thumbnails.has_value();
  });
  std::string html =
      "<h2>Pairs</h2>\n<p><label>Order <select id=\"order\"><option value=\"failures\">failures "
      "first</option><option value=\"name\">name</option><option value=\"time\">slowest "
      "first</option><option value=\"most\">most salient first</option><option "
      "value=\"least\">least salient first</option></select></label> <label>Filter <input "
      "id=\"filter\" type=\"search\" placeholder=\"part of a name\"></label> Pictures of " +
      std::to_string(shown) + " of " + std::to_string(entries.size()) +
      " pairs.</p>\n<div id=\"gallery\">\n";
  for (const std::size_t index : order) html += card(entries[index], index);
  return html + "</div>\n";
}

std::string module_section(const ModuleReport& report) {
  std::string html = "<h2>Where the time goes</h2>\n<table>\n";
  for (const auto& [key, value] : report.header) {
    html += "<tr><td>" + html_text(key) + "</td><td>" + html_text(value) + "</td></tr>\n";
  }
  html += "</table>\n";
  for (const std::string& warning : report.warnings) {
    html += "<p class=\"error\">" + html_text(warning) + "</p>\n";
  }
  return html +
         "<p>Modules run one by one, in passes of their own over the first batch; mean of the "
         "measured passes.</p>\n<p class=\"key\">bound by <span class=\"compute\">compute</span>"
         "<span class=\"memory\">memory</span><span class=\"latency\">latency</span></p>\n" +
         module_bars(report) + "<h2>Roofline</h2>\n" + roofline(report);
}

}  // namespace

std::string report_page(const PageContent& content) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width\">\n<title>hdfnet-infer</title>\n<style>" +
      std::string(style) + "</style>\n</head>\n<body>\n<h1>hdfnet-infer</h1>\n<p>" +
      html_text(content.summary) + "</p>\n";
  html += gallery_section(content.entries);
  if (content.report) html += module_section(*content.report);
  html += "<h2>Settings</h2>\n<pre>" + html_text(content.settings) + "</pre>\n";
  return html + "<script>" + script + "</script>\n</body>\n</html>\n";
}

}  // namespace hdfnet::app
