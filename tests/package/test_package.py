"""Uses an installation as other people's programs do. Exit status 77: everything was skipped.

test_package.py Install puts the build into a folder and moves it to where HDFNET_PREFIX says; the other
suites use it there.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HDFNET_BUILD", ROOT / "build"))
PREFIX = Path(os.environ.get("HDFNET_PREFIX", BUILD / "tests/package/moved"))
LIBDIR = os.environ.get("HDFNET_LIBDIR", "lib")
CMAKE = os.environ.get("HDFNET_CMAKE", "cmake")
CXX = os.environ.get("HDFNET_CXX", "c++")
TORCH = Path(os.environ.get("HDFNET_TORCH", "/nowhere"))
TORCH_VERSION = os.environ.get("HDFNET_TORCH_VERSION", "2.11.0")
BUNDLE = PREFIX / LIBDIR / "hdfnet/torch/lib"
EXAMPLES = PREFIX / "share/hdfnet/examples"
# The network's time is no matter here, and the machine may be loaded.
SETTINGS = ["device=cpu", "size=64", "threads=1"]
SMALL = ["--size", "64", "--threads", "1"]  # the same for the program


def run(
    *command: object, cwd: Optional[Path] = None, env: Optional[Dict[str, str]] = None
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        timeout=600,
    )


def pixels(file: Path) -> np.ndarray:
    with Image.open(file) as image:
        return np.asarray(image)


def elf_files() -> List[Path]:
    folders = [PREFIX / "bin", PREFIX / LIBDIR]
    files = [file for folder in folders for file in folder.iterdir()]
    return [file for file in files if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]


class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hdfnet-package-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def good(self, *command: object, **options) -> str:
        """Runs a command that must end well; what it printed."""
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def reference(self, *options: object, depth: str = "depth") -> np.ndarray:
        """The teapot's map by the program of the build tree."""
        out = self.folder / "reference.png"
        self.good(
            BUILD / "bin/hdfnet-infer", "--device", "cpu", "--out", out, *options,
            "--rgb", ROOT / "examples/rgb/teapot.jpg",
            "--depth", ROOT / f"examples/{depth}/teapot.png",
        )  # fmt: skip
        return pixels(out)

    def configure(self, source: Path, *options: object) -> subprocess.CompletedProcess:
        return run(
            CMAKE, "-S", source, "-B", self.folder / "build", f"-DCMAKE_PREFIX_PATH={PREFIX}",
            "-DCMAKE_BUILD_TYPE=Release", *options,
        )  # fmt: skip

    def build(self, source: Path, *options: object) -> Path:
        """Builds a project out of the tree, against the installation; its build folder."""
        done = self.configure(source, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.good(CMAKE, "--build", self.folder / "build")
        return self.folder / "build"

    def expect_map(self, file: Path, reference: np.ndarray) -> None:
        np.testing.assert_array_equal(pixels(file), reference)


class Install(PackageTest):
    def test_installs_and_moves(self) -> None:
        shutil.rmtree(PREFIX, ignore_errors=True)
        first = PREFIX.with_name("installed")
        shutil.rmtree(first, ignore_errors=True)
        self.good(CMAKE, "--install", BUILD, "--prefix", first)
        first.rename(PREFIX)


class Tree(PackageTest):
    def test_run_paths_are_relative_or_that_of_a_foreign_libtorch(self) -> None:
        self.assertGreaterEqual(len(elf_files()), 5)
        for file in elf_files():
            dynamic = self.good("readelf", "-d", file)
            for path in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
                for entry in path.split(":"):
                    foreign = not BUNDLE.exists() and entry == str(TORCH / "lib")
                    self.assertTrue(entry.startswith("$ORIGIN") or foreign, f"{file}: {entry}")

    def test_the_loader_finds_everything_and_nothing_in_the_build_tree(self) -> None:
        for file in elf_files():
            listing = self.good("ldd", file)
            self.assertNotIn("not found", listing, file)
            for path in re.findall(r"=> (\S+)", listing):
                real = os.path.normpath(path)
                inside = real.startswith(str(PREFIX))
                self.assertTrue(inside or not real.startswith(f"{BUILD}/"), f"{file}: {path}")
                if BUNDLE.exists():
                    self.assertTrue(inside or not real.startswith(f"{ROOT}/"), f"{file}: {path}")

    def test_texts_do_not_name_the_source_tree(self) -> None:
        if not BUNDLE.exists():
            self.skipTest("LibTorch is not installed along, so its folder is named")
        for file in PREFIX.rglob("*"):
            if file.suffix in (".cmake", ".pc", ".h", ".py", ".yaml") and file.is_file():
                self.assertNotIn(str(ROOT), file.read_text(), file)

    def test_the_program_finds_its_weights_and_settings(self) -> None:
        out = self.folder / "map.png"
        self.good(
            PREFIX / "bin/hdfnet-infer", "--config", "reference", "--device", "cpu", *SMALL,
            "--rgb", EXAMPLES / "rgb/teapot.jpg", "--depth", EXAMPLES / "depth/teapot.png",
            "--out", out, cwd=self.folder,
        )  # fmt: skip
        wanted = self.reference("--config", ROOT / "configs/reference.yaml", *SMALL)
        self.expect_map(out, wanted)

    def test_without_weights_every_place_is_listed(self) -> None:
        prefix = self.folder / "empty"
        shutil.copytree(PREFIX / "bin", prefix / "bin")
        (prefix / LIBDIR).parent.mkdir(parents=True, exist_ok=True)
        (prefix / LIBDIR).symlink_to(PREFIX / LIBDIR)
        home = self.folder / "home"
        home.mkdir()
        line = [
            prefix / "bin/hdfnet-infer", "--device", "cpu", "--out", self.folder / "out",
            "--rgb", EXAMPLES / "rgb/teapot.jpg", "--depth", EXAMPLES / "depth/teapot.png",
        ]  # fmt: skip
        done = run(*line, cwd=self.folder, env={"HDFNET_HOME": str(home)})
        self.assertEqual(done.returncode, 2, done.stderr)
        for place in (str(home), str(prefix / "share/hdfnet")):
            self.assertIn(f"{place}/weights/hdfnet_vgg16.pt", done.stderr)
        done = run(*line, cwd=self.folder, env={"HDFNET_HOME": "/nowhere/home"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("HDFNET_HOME is /nowhere/home, which is not a folder", done.stderr)

    def test_another_libtorch_is_refused_with_a_sentence(self) -> None:
        other = self.folder / "other.cpp"
        other.write_text(
            "#include <string>\n"
            'namespace at { std::string show_config() { return "TORCH_VERSION=2.0.9, "; } }\n'
        )
        library = self.folder / "other.so"
        self.good(CXX, "-shared", "-fPIC", other, "-o", library)
        done = run(
            PREFIX / "bin/hdfnet-infer", "--device", "cpu", "--out", self.folder / "out",
            "--rgb", EXAMPLES / "rgb/teapot.jpg", "--depth", EXAMPLES / "depth/teapot.png",
            env={"LD_PRELOAD": str(library)},
        )  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        built = f"LibTorch 2.0.9 is loaded, but hdfnet was built with LibTorch {TORCH_VERSION}"
        self.assertIn(built, done.stderr)

    def test_the_library_shows_its_public_names_only(self) -> None:
        names = self.good("nm", "-DC", "--defined-only", PREFIX / LIBDIR / "libhdfnet.so")
        public = re.compile(
            r"(typeinfo (name )?for |vtable for )?(hdfnet_\w+$|hdfnet::(?!app::|ops::|Network))"
        )
        lines = names.splitlines()
        self.assertGreater(len(lines), 20)
        for line in lines:
            self.assertRegex(line.split(" ", 2)[2], public)

    def test_versions(self) -> None:
        for program in ("hdfnet-infer", "hdfnet-eval"):
            version = self.good(PREFIX / "bin" / program, "--version")
            self.assertIn(self.project_version(), version)

    def project_version(self) -> str:
        header = (PREFIX / "include/hdfnet/version.h").read_text()
        return re.search(r'HDFNET_VERSION "([\d.]+)"', header).group(1)


class Documents(PackageTest):
    def test_manual_pages_have_no_fault(self) -> None:
        pages = sorted((PREFIX / "share/man/man1").glob("*.1"))
        names = [page.stem for page in pages]
        self.assertEqual(names, ["hdfnet-bench", "hdfnet-eval", "hdfnet-infer"])
        for page in pages:
            text = page.read_text()
            self.assertTrue(text.startswith(".TH "), page)
            self.assertGreater(len(text), 500, page)
        if shutil.which("groff") is None:
            self.skipTest("groff is not here, so the pages are not set")
        for page in pages:
            done = run("groff", "-man", "-Tascii", "-ww", page)
            self.assertEqual(done.stderr, "", page)

    def completed(self, *words: str) -> List[str]:
        file = PREFIX / "share/bash-completion/completions/hdfnet-infer"
        line = " ".join(f"'{word}'" for word in words)
        script = (
            f"source {file}; COMP_WORDS=(hdfnet-infer {line}); COMP_CWORD={len(words)}; "
            '_hdfnet_infer; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return self.good("bash", "-c", script, cwd=self.folder).split()

    def test_bash_completes_options_values_and_files(self) -> None:
        self.assertEqual(self.completed("--depth-i"), ["--depth-invert"])
        self.assertEqual(self.completed("--precision", "fp"), ["fp32", "fp16"])
        (self.folder / "weights.pt").touch()
        (self.folder / "weights").mkdir()
        self.assertEqual(sorted(self.completed("--weights", "we")), ["weights", "weights.pt"])
        self.assertEqual(self.completed("--dataset", "we"), ["weights"])
        self.assertEqual(self.completed("--size", ""), [])

    def test_other_shells_read_theirs(self) -> None:
        files = {
            "zsh": PREFIX / "share/zsh/site-functions/_hdfnet-infer",
            "fish": PREFIX / "share/fish/vendor_completions.d/hdfnet-infer.fish",
        }
        for shell, file in files.items():
            self.assertIn("depth-suffix", file.read_text())
            if shutil.which(shell) is not None:
                self.good(shell, "-n", file)


class Cpp(PackageTest):
    def test_the_example_gives_the_programs_map(self) -> None:
        program = self.build(EXAMPLES / "cpp") / "saliency"
        out = self.folder / "map.png"
        pair = (EXAMPLES / "rgb/teapot.jpg", EXAMPLES / "depth_mm/teapot.png")
        said = self.good(program, *pair, out, *SETTINGS, cwd=self.folder)
        self.assertIn("VGG16 on cpu, fp32", said)
        self.expect_map(out, self.reference(*SMALL, depth="depth_mm"))
        done = run(program, *pair, out, "size=huge")
        self.assertEqual(done.returncode, 2)
        self.assertIn("size: 'huge'", done.stderr)
        done = run(program, *pair, out, "weights=/nowhere.pt")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere.pt", done.stderr)


class Live(PackageTest):
    def expect_report(self, said: str, frames: int) -> None:
        self.assertIn(f"{frames} frames on cpu", said)
        self.assertRegex(said, r"p50 [\d.]+, p90 [\d.]+, p99 [\d.]+, max [\d.]+")

    def test_folders_and_videos(self) -> None:
        program = self.build(EXAMPLES / "live") / "live"
        out = self.folder / "maps"
        said = self.good(
            program, "folder", EXAMPLES / "rgb", EXAMPLES / "depth", *SETTINGS, "frames=4",
            f"out={out}",
        )  # fmt: skip
        self.expect_report(said, 4)
        self.assertEqual(len(list(out.iterdir())), 4)
        self.expect_map(out / "000002.png", self.reference(*SMALL))  # cactus, duck, teapot
        self.expect_map(out / "000003.png", pixels(out / "000000.png"))
        for kind, ending in (("rgb", "jpg"), ("depth", "png")):
            (self.folder / kind).mkdir()
            for i in range(3):
                file = EXAMPLES / kind / f"teapot.{ending}"
                shutil.copy(file, self.folder / kind / f"{i:03}.{ending}")
        said = self.good(
            program, "video", self.folder / "rgb/%03d.jpg", self.folder / "depth/%03d.png", *SETTINGS
        )
        self.expect_report(said, 3)
        done = run(program, "video", "/nowhere.mp4", "/nowhere.mkv", *SETTINGS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere.mp4 cannot be opened", done.stderr)


class C(PackageTest):
    def test_the_example_gives_the_programs_map(self) -> None:
        program = self.build(EXAMPLES / "c") / "saliency_c"
        rgb, depth = self.folder / "rgb.ppm", self.folder / "depth.pgm"
        Image.open(EXAMPLES / "rgb/teapot.jpg").convert("RGB").save(rgb)
        numbers = pixels(EXAMPLES / "depth_mm/teapot.png").astype(">u2")
        header = f"P5\n# millimetres\n{numbers.shape[1]} {numbers.shape[0]}\n65535\n"
        depth.write_bytes(header.encode() + numbers.tobytes())
        out = self.folder / "map.pgm"
        self.good(program, rgb, depth, out, *SETTINGS, cwd=self.folder)
        self.expect_map(out, self.reference(*SMALL, depth="depth_mm"))
        done = run(program, rgb, depth, out, "presicion=fp32")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean 'precision'", done.stderr)


class Python(PackageTest):
    def test_the_example_gives_the_programs_map(self) -> None:
        script = EXAMPLES / "python/hdfnet.py"
        out = self.folder / "map.png"
        pair = (EXAMPLES / "rgb/teapot.jpg", EXAMPLES / "depth_mm/teapot.png")
        self.good(sys.executable, "-B", script, *pair, out, *SETTINGS, cwd=self.folder)
        self.expect_map(out, self.reference(*SMALL, depth="depth_mm"))
        done = run(sys.executable, "-B", script, *pair, out, "device=cuda:99")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^error: device cuda:99")

    def test_a_library_that_cannot_be_loaded_is_named(self) -> None:
        alone = self.folder / "libhdfnet.so"
        shutil.copy(PREFIX / LIBDIR / "libhdfnet.so", alone)  # without libhdfnet_ops.so
        script = EXAMPLES / "python/hdfnet.py"
        done = run(sys.executable, "-B", script, env={"HDFNET_LIBRARY": str(alone)})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"lib\w+\.so: cannot open shared object file")
        self.assertIn("Set HDFNET_LIBRARY", done.stderr)


class Tensors(PackageTest):
    def test_engine_and_operators_with_libtorchs_headers(self) -> None:
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(tensors CXX)\n"
            "find_package(HDFNet REQUIRED COMPONENTS engine ops)\n"
            "add_executable(tensors tensors.cpp)\n"
            "target_link_libraries(tensors PRIVATE HDFNet::engine HDFNet::ops)\n"
        )
        (self.folder / "tensors.cpp").write_text(
            "#include <hdfnet/engine.h>\n#include <hdfnet/ops/library.h>\n#include <cstdio>\n"
            "int main(int, char** argv) {\n  hdfnet::ops::register_ops();\n"
            "  const auto parameters = hdfnet::load_parameters(argv[1]);\n"
            "  const hdfnet::Engine engine(parameters, {});\n"
            '  std::printf("%s\\n", name(engine.architecture().variant).data());\n}\n'
        )
        program = self.build(self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX};{TORCH}") / "tensors"
        weights = PREFIX / "share/hdfnet/weights/hdfnet_vgg16.pt"
        self.assertEqual(self.good(program, weights).strip(), "VGG16")


class ConfigErrors(PackageTest):
    def project(self, components: str) -> Path:
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(errors CXX)\n"
            f"find_package(HDFNet REQUIRED {components})\n"
        )
        return self.folder

    def expect_error(self, done: subprocess.CompletedProcess, *texts: str) -> None:
        self.assertNotEqual(done.returncode, 0, done.stdout)
        said = " ".join(done.stderr.split())  # CMake wraps its lines
        for text in texts:
            self.assertIn(text, said)

    def test_a_libtorch_of_another_version(self) -> None:
        other = self.folder / "libtorch"
        cmake_files = other / "share/cmake/Torch"
        cmake_files.mkdir(parents=True)
        (cmake_files / "TorchConfig.cmake").touch()
        (cmake_files / "TorchConfigVersion.cmake").write_text('set(PACKAGE_VERSION "2.99.1")\n')
        (other / "lib").mkdir()
        for name in ("libc10.so", "libtorch_cpu.so"):
            (other / "lib" / name).touch()
        done = self.configure(
            self.project("COMPONENTS ops"), f"-DCMAKE_PREFIX_PATH={PREFIX};{other}"
        )
        self.expect_error(
            done, "LibTorch 2.99.1 was found in", f"built with LibTorch {TORCH_VERSION}",
            "-DCMAKE_PREFIX_PATH=",
        )  # fmt: skip
        (cmake_files / "TorchConfig.cmake").write_text('set(F "-D_GLIBCXX_USE_CXX11_ABI=0")\n')
        shutil.rmtree(self.folder / "build")
        done = self.configure(self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX};{other}")
        self.expect_error(done, "old C++ ABI")

    def test_a_missing_operator_library(self) -> None:
        broken = self.folder / "broken"
        shutil.copytree(PREFIX / LIBDIR / "cmake", broken / LIBDIR / "cmake")
        (broken / "include").mkdir()
        (broken / "share/hdfnet").mkdir(parents=True)
        (broken / LIBDIR / "libhdfnet.so").touch()
        done = self.configure(self.project(""), f"-DCMAKE_PREFIX_PATH={broken}")
        self.expect_error(done, f"{LIBDIR}/libhdfnet_ops.so is missing", "Install HDFNet again")

    def test_an_unknown_component(self) -> None:
        done = self.configure(self.project("COMPONENTS predictr"))
        self.expect_error(done, "no component 'predictr': there are c, predictor, ops and engine")


class Readme(PackageTest):
    """The blocks of the README's section "Use it from", each under ten lines, as they stand."""

    def setUp(self) -> None:
        super().setUp()
        text = (ROOT / "README.md").read_text()
        section = re.search(r"^## Use it from\n(.*?)^## ", text, re.M | re.S).group(1)
        self.blocks: Dict[str, Dict[str, str]] = {}
        for part in re.split(r"^### ", "Install\n" + section, flags=re.M):
            blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", part, re.M | re.S))
            for kind, block in blocks.items():
                self.assertLessEqual(len(block.splitlines()), 10, block)
                blocks[kind] = block.replace("/opt/hdfnet/lib", str(PREFIX / LIBDIR)).replace(
                    "/opt/hdfnet", str(PREFIX)
                )
            self.blocks[part.split("\n", 1)[0]] = blocks
        # One core, so that the default is one thread: on a loaded machine more wait for each other.
        os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
        shutil.copy(EXAMPLES / "rgb/teapot.jpg", self.folder / "rgb.jpg")
        shutil.copy(EXAMPLES / "depth/teapot.png", self.folder / "depth.png")

    def shell(self, script: str) -> str:
        return self.good("sh", "-e", "-c", script, cwd=self.folder)

    def test_the_sections_are_these(self) -> None:
        known = {"Install", "CMake and C++", "A live loop", "C", "Python, through ctypes"}
        self.assertLessEqual(known, set(self.blocks))

    def test_install(self) -> None:
        script = self.blocks["Install"]["sh"]
        other = self.folder / "opt"
        script = script.replace(str(PREFIX), str(other)).replace("install build", f"install {BUILD}")
        script = script.replace("cmake ", f"{CMAKE} ", 1)
        self.assertIn("LibTorch", self.shell(script))

    def test_cmake_and_cpp(self) -> None:
        blocks = self.blocks["CMake and C++"]
        (self.folder / "CMakeLists.txt").write_text(blocks["cmake"])
        (self.folder / "mine.cpp").write_text(blocks["cpp"])
        program = self.build(self.folder) / "mine"
        self.good(program, cwd=self.folder, env={"CUDA_VISIBLE_DEVICES": ""})
        self.expect_map(self.folder / "map.png", self.reference())

    def test_live_loop(self) -> None:
        for kind, file in (("rgb", "rgb.jpg"), ("depth", "depth.png")):
            (self.folder / kind).mkdir()
            shutil.copy(self.folder / file, self.folder / kind / f"000{Path(file).suffix}")
        cmake = self.blocks["CMake and C++"]["cmake"].replace("imgcodecs", "videoio")
        (self.folder / "CMakeLists.txt").write_text(cmake)
        (self.folder / "mine.cpp").write_text(self.blocks["A live loop"]["cpp"])
        program = self.build(self.folder) / "mine"
        self.good(program, cwd=self.folder, env={"CUDA_VISIBLE_DEVICES": ""})

    def test_c(self) -> None:
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not here")
        blocks = self.blocks["C"]
        (self.folder / "mine.c").write_text(blocks["c"])
        self.shell(blocks["sh"])
        self.good(self.folder / "mine", env={"CUDA_VISIBLE_DEVICES": ""})

    def test_c_in_a_folder_with_a_space(self) -> None:
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not here")
        prefix = self.folder / "a prefix"
        prefix.symlink_to(PREFIX)
        (self.folder / "mine.c").write_text(self.blocks["C"]["c"])
        # What pkg-config prints is for a shell to read again.
        line = 'eval "cc mine.c $(pkg-config --cflags --libs hdfnet) -o mine"'
        places = {"PKG_CONFIG_PATH": f"{prefix}/{LIBDIR}/pkgconfig"}
        self.good("sh", "-ec", line, cwd=self.folder, env=places)
        self.good(self.folder / "mine", env={"CUDA_VISIBLE_DEVICES": ""})

    def test_python(self) -> None:
        (self.folder / "mine.py").write_text(self.blocks["Python, through ctypes"]["python"])
        self.good(sys.executable, "-B", "mine.py", cwd=self.folder)
        self.expect_map(self.folder / "map.png", self.reference())


class BuildPaths(PackageTest):
    """A package's objects do not say where they were built; one that includes LibTorch stands for all."""

    OBJECT = "app/CMakeFiles/hdfnet_torch.dir/host_memory.cpp.o"

    def test_no_object_of_a_package_names_a_folder_of_this_machine(self) -> None:
        build = self.folder / "build"
        opencv = re.search(r"^OpenCV_DIR:PATH=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M).group(1)
        self.good(
            CMAKE, "-G", "Ninja", "-S", ROOT, "-B", build, "-DHDFNET_RELEASE_PACKAGE=ON", "-DHDFNET_CUDA=OFF",
            "-DHDFNET_BUILD_TESTS=OFF", f"-DOpenCV_DIR={opencv}", f"-DCMAKE_PREFIX_PATH={TORCH}",
            f"-DCMAKE_CXX_COMPILER={CXX}",
        )  # fmt: skip
        self.good(CMAKE, "--build", build, "--target", self.OBJECT)
        content = (build / self.OBJECT).read_bytes()
        self.assertIn(b"libtorch/include/c10/core/TensorImpl.h", content)
        for place in (ROOT, build, TORCH, TORCH.resolve()):
            self.assertNotIn(f"{place}/".encode(), content)


class Deb(PackageTest):
    """The .deb without LibTorch in it, which takes long to pack; scripts/check_package.sh has all."""

    def test_contents_and_dependencies(self) -> None:
        for tool in ("dpkg-deb", "dpkg-shlibdeps", "file"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not here")
        self.good(
            Path(CMAKE).with_name("cpack"), "-G", "DEB", "--config", BUILD / "CPackConfig.cmake",
            "-B", self.folder, "-D", "CPACK_COMPONENTS_ALL=Unspecified",
            "-D", "CPACK_DEB_COMPONENT_INSTALL=ON", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
        )  # fmt: skip
        (package,) = self.folder.glob("*.deb")
        listing = self.good("dpkg-deb", "-c", package)
        for file in (
            "bin/hdfnet-infer", "bin/hdfnet-eval", "bin/hdfnet-bench", f"{LIBDIR}/libhdfnet.so",
            f"{LIBDIR}/libhdfnet_ops.so", f"{LIBDIR}/cmake/HDFNet/HDFNetConfig.cmake",
            "include/hdfnet/predictor.h", "include/hdfnet/hdfnet.h",
            "share/hdfnet/weights/hdfnet_vgg16.pt", "share/hdfnet/configs/fast.yaml",
            "share/hdfnet/examples/rgb/teapot.jpg", "share/man/man1/hdfnet-infer.1",
            "share/bash-completion/completions/hdfnet-infer", "share/doc/hdfnet-infer/LICENSE",
        ):  # fmt: skip
            self.assertIn(f" ./usr/{file}", listing)
        self.assertNotIn(str(ROOT).strip("/"), listing)
        depends = self.good("dpkg-deb", "-f", package, "Depends")
        for needed in ("libc6", "libstdc++6", "libopencv-core", "libyaml-cpp"):
            self.assertIn(needed, depends)


def main() -> int:
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun and len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
