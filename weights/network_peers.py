"""Times the reference network as PyTorch users run it, beside the engine's figures.

    .venv/bin/python weights/network_peers.py [--device cuda] [--precision fp16] [--batch 1,32] [--size 320]
        [--who eager,graph,frozen,compile] [--engine build/bin/hdfnet-bench] [--random] [--turns FILE]
        [--json FILE]

who: eager; graph (eager in a CUDA graph); frozen (TorchScript, scripted and frozen); compile
(torch.compile, mode="reduce-overhead" on CUDA; takes minutes). Weights are made by the golden rule. In
half precision everything is channels_last. With --engine, `hdfnet-bench network` is run on the same
weights right before, so that one run on one device holds all that is compared. --random takes PyTorch's
initial weights in place of the golden rule's, which take long to make. Processes that name the same file in
--turns compile at the same time and time one after the other.

Medians with the 5th and 95th percentile, in microseconds: CUDA events between device-synchronised calls, or
the monotonic clock on the CPU. Each result is compared with eager float32.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))
import golden_rule  # noqa: E402
import hdfnet  # noqa: E402

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
Forward = Callable[[Tensor, Tensor], Tensor]


def model(variant: str, random: bool) -> torch.nn.Module:
    torch.manual_seed(0)
    network = hdfnet.build(variant).eval()
    if random:
        return network
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    network.load_state_dict(golden_rule.state_dict(shapes, variant))
    return network


def graph_of(network: torch.nn.Module) -> Forward:
    graphs: Dict[torch.Size, tuple] = {}

    def forward(rgb: Tensor, depth: Tensor) -> Tensor:
        if rgb.shape not in graphs:
            inputs = (rgb.clone(), depth.clone())
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    network(*inputs)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = network(*inputs)
            graphs[rgb.shape] = (graph, inputs, output)
        graph, inputs, output = graphs[rgb.shape]
        inputs[0].copy_(rgb)
        inputs[1].copy_(depth)
        graph.replay()
        return output

    return forward


def form(who: str, network: torch.nn.Module) -> Forward:
    if who == "eager":
        return network
    if who == "graph":
        return graph_of(network)
    if who == "frozen":
        return torch.jit.freeze(torch.jit.script(network))
    if who == "compile":
        on_gpu = next(network.parameters()).is_cuda
        return torch.compile(network, mode="reduce-overhead" if on_gpu else "default")
    raise SystemExit(f"--who: {who} is none of eager, graph, frozen and compile")


@contextlib.contextmanager
def turn(path: str | None):
    """Holds the file's lock."""
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def microseconds(call: Callable[[], object], device: torch.device, repeats: int) -> List[float]:
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        else:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)


def measure(who: str, options: argparse.Namespace, precision: str, batch: int, side: int,
            network: torch.nn.Module) -> dict:
    device = torch.device(options.device)
    kind = dict(device=device, dtype=TYPES[precision])
    channels_last = precision in ("fp16", "bf16")
    rgb, depth = torch.rand(batch, 3, side, side, **kind), torch.rand(batch, 1, side, side, **kind)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    network = network.to(**kind)
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
        rgb = rgb.contiguous(memory_format=torch.channels_last)
        depth = depth.contiguous(memory_format=torch.channels_last)
    forward = form(who, network)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode() if who != "compile" else torch.no_grad():
        for _ in range(3):
            forward(rgb, depth)
        with turn(options.turns):
            times = microseconds(lambda: forward(rgb, depth), device, options.repeat)
        result = forward(rgb, depth).float().cpu()
    peak = torch.cuda.max_memory_allocated() / 1e6 if device.type == "cuda" else None
    exact = model(options.variant, options.random)
    with torch.inference_mode():
        few = min(batch, 2)
        difference = (exact(rgb[:few].float().cpu().contiguous(), depth[:few].float().cpu().contiguous())
                      - result[:few]).abs().max().item()
    last = len(times) - 1
    return {"variant": options.variant, "who": who, "precision": precision, "batch": batch, "side": side,
            "us": times[len(times) // 2], "p5": times[last // 20], "p95": times[last - last // 20],
            "images/s": batch / times[len(times) // 2] * 1e6, "peak MB": peak, "difference": difference}


def engine_rows(options: argparse.Namespace, folder: str) -> List[dict]:
    archive, output = Path(folder) / "weights.pt", Path(folder) / "engine.json"
    export = Path(__file__).resolve().parent / "export.py"
    source = ["--golden-rule"]
    if options.random:
        checkpoint = Path(folder) / "random.pth"
        torch.save(model(options.variant, random=True).state_dict(), checkpoint)
        source = ["--checkpoint", str(checkpoint)]
    subprocess.run([sys.executable, str(export), *source, "--variant", options.variant, "--out",
                    str(archive)], check=True, stdout=subprocess.DEVNULL)
    with turn(options.turns):
        subprocess.run([options.engine, "network", "--weights", str(archive), "--device", options.device,
                        "--precision", *options.precision.split(","), "--batch", *options.batch.split(","),
                        "--size", *options.size.split(","), "--repeat", str(options.repeat), "--who", "engine",
                        "--format", "json", "--output", str(output)], check=True)
    rows = json.loads(output.read_text())["rows"]
    return [{"variant": options.variant, **{key: row[key] for key in ("who", "precision", "batch", "side", "us", "p5", "p95",
                                                                      "images/s", "peak MB",
                                                                      "difference")}} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="vgg16", choices=hdfnet.VARIANTS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="fp16" if torch.cuda.is_available() else "fp32")
    parser.add_argument("--batch", default="1")
    parser.add_argument("--size", default="320")
    parser.add_argument("--who", default="eager,graph,frozen" if torch.cuda.is_available() else "eager,frozen")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--engine", help="hdfnet-bench, to be run on the same weights first")
    parser.add_argument("--random", action="store_true", help="PyTorch's initial weights")
    parser.add_argument("--turns", metavar="FILE", help="time one after the other with those that name it")
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    rows: List[dict] = []
    if options.engine:
        with tempfile.TemporaryDirectory() as folder:
            rows += engine_rows(options, folder)
    for precision in options.precision.split(","):
        if precision not in TYPES:
            raise SystemExit(f"--precision: {precision} is none of {', '.join(TYPES)}")
        for side in map(int, options.size.split(",")):
            for batch in map(int, options.batch.split(",")):
                for who in options.who.split(","):
                    rows.append(measure(who, options, precision, batch, side,
                                            model(options.variant, options.random)))
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else \
        f"CPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {device}")
    print("| variant | who | precision | batch | side | us | p5 | p95 | images/s | peak MB | difference |")
    print("|---" * 11 + "|")
    for row in rows:
        cells = [f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
                 for value in row.values()]
        print("| " + " | ".join(cells) + " |")
    if options.json:
        document = {"torch": torch.__version__, "device": device, "repeats": options.repeat, "rows": rows}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
