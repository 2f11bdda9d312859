"""Times the operators beside what PyTorch users have, in one run on one card.

    python3 ops/bench/peers.py build/lib/libhdfnet_ops.so [--json FILE] [--compile] [--quick] [--own]

Peers: nn.Unfold, torch.compile of it (--compile; minutes of compilation) and one Triton kernel. Medians
of CUDA-event timings in microseconds; `graph` times one call of twenty in a CUDA graph. The share is of
the bytes a filter must move over the copy rate measured in the same run. Every result is first compared
with float64; TF32 is off unless the row says tf32.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

DILATIONS = [1, 3, 5]


if triton is not None:

    @triton.jit
    def _filter_kernel(x, taps, out, H, W, C, d0: tl.constexpr, d1: tl.constexpr, d2: tl.constexpr,
                       K: tl.constexpr, BLOCK: tl.constexpr):
        plane = tl.program_id(1).to(tl.int64)  # ((n * 3 + b) * C + c)
        n = plane // (3 * C)
        b = plane % (3 * C) // C
        c = plane % C
        d = tl.where(b == 0, d0, tl.where(b == 1, d1, d2))
        p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        real = p < H * W
        h = p // W
        w = p % W
        x += (n * C + c) * H * W
        taps += plane * K * K * H * W
        total = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(K):
            for j in tl.static_range(K):
                fh = h + (i - K // 2) * d
                fw = w + (j - K // 2) * d
                inside = real & (fh >= 0) & (fh < H) & (fw >= 0) & (fw < W)
                value = tl.load(x + fh * W + fw, mask=inside, other=0.0)
                tap = tl.load(taps + (i * K + j) * H * W + p, mask=real, other=0.0)
                total += value.to(tl.float32) * tap.to(tl.float32)
        tl.store(out + plane * H * W + p, total, mask=real)


def triton_filter(x, kernels):
    n, c, h, w = x.shape
    k = round(kernels.shape[3] ** 0.5)
    out = torch.empty((n, 3 * c, h, w), device=x.device, dtype=x.dtype)
    block = 1024
    _filter_kernel[(triton.cdiv(h * w, block), n * 3 * c)](x, kernels, out, h, w, c, *DILATIONS, k, block)
    return out


def unfold_filter(x, kernels):
    n, c, h, w = x.shape
    k = round(kernels.shape[3] ** 0.5)
    parts = []
    for b, d in enumerate(DILATIONS):
        windows = F.unfold(x, k, dilation=d, padding=k // 2 * d).view(n, c, k * k, h, w)
        parts.append((windows * kernels[:, b]).sum(2))
    return torch.cat(parts, 1)


def unfold_module(x, y, weight, bias):
    n, c, h, w = x.shape
    taps = torch.matmul(weight, y.flatten(3)) + bias.unsqueeze(2)
    return unfold_filter(x, taps.view(n, 3, c, -1, h, w))


def timed(function, repeats):
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
              for _ in range(repeats)]
    for start, end in events:
        start.record()
        function()
        end.record()
    torch.cuda.synchronize()
    times = sorted(1000 * start.elapsed_time(end) for start, end in events)
    return {"median": statistics.median(times), "p5": times[len(times) // 20],
            "p95": times[-1 - len(times) // 20]}


def timed_in_graph(function, repeats, calls=20):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = [function() for _ in range(calls)]
    results[-1].fill_(float("nan"))
    time_of = timed(graph.replay, repeats)
    assert not results[-1].isnan().any(), "the replay left the output unwritten"
    return {key: value / calls for key, value in time_of.items()}


def relative_error(value, exact):
    return ((value.double() - exact).norm() / exact.norm()).item()


def channels_last_taps(kernels):
    n, b, c, t, h, w = kernels.shape
    flat = kernels.reshape(n, b * c * t, h, w).contiguous(memory_format=torch.channels_last)
    return flat.view(n, b, c, t, h, w)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--own", action="store_true", help="time no peers")
    options = parser.parse_args()
    torch.ops.load_library(options.library)
    ops = torch.ops.hdfnet
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    repeats = 15 if options.quick else 50
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()

    rows = []

    def record(**row):
        rows.append(row)
        print("  ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                        for key, value in row.items()), flush=True)

    # The first call, with the context up but nothing of ours loaded on the card.
    x = torch.randn(1, 16, 20, 20, device="cuda")
    kernels = torch.randn(1, 3, 16, 9, 20, 20, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    ops.dynamic_filter(x, kernels, DILATIONS)
    torch.cuda.synchronize()
    record(op="first_call", ms=1000 * (time.perf_counter() - start))

    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = timed(lambda: target.copy_(source), 20)
    ceiling = 2 * source.numel() * 4 / copy["median"] * 1e6
    record(op="copy", device=torch.cuda.get_device_name(), torch=torch.__version__, TBps=ceiling / 1e12)
    del source, target

    def filter_row(n, c, k, side, dtype, layout, peers=True, graph=False):
        x = torch.randn(n, c, side, side, device="cuda").to(dtype)
        kernels = torch.randn(n, 3, c, k * k, side, side, device="cuda", dtype=dtype)
        if layout == "nhwc":
            x = x.contiguous(memory_format=torch.channels_last)
            own_kernels = channels_last_taps(kernels)
        else:
            own_kernels = kernels
        def call():
            return ops.dynamic_filter(x, own_kernels, DILATIONS)
        exact = unfold_filter(x[:1].double(), kernels[:1].double())
        own_error = relative_error(call()[:1], exact)
        peer_error = relative_error(unfold_filter(x[:1].contiguous(), kernels[:1]), exact)
        time_of = timed_in_graph(call, repeats) if graph else timed(call, repeats)
        size = (3 * k * k + 4) * n * c * side * side * x.element_size()
        row = dict(op="filter", n=n, c=c, k=k, side=side, type=str(dtype)[6:], layout=layout,
                   graph=graph, us=time_of["median"], p5=time_of["p5"], p95=time_of["p95"],
                   GBps=size / time_of["median"] / 1e3,
                   share=size / time_of["median"] * 1e6 / ceiling,
                   error=own_error, unfold_error=peer_error, good=own_error <= 2 * peer_error + 1e-7)
        if peers and not options.own:
            dense = x.contiguous()
            row["unfold_us"] = timed(lambda: unfold_filter(dense, kernels), 5)["median"]
            if triton is not None:
                row["triton_us"] = timed(lambda: triton_filter(dense, kernels), 15)["median"]
            if options.compile:
                compiled = torch.compile(unfold_filter)
                row["compile_us"] = timed(lambda: compiled(dense, kernels), 15)["median"]
        record(**row)

    def generated_row(n, c, k, side, groups, dtype, layout, tf32=False, peers=False):
        x = torch.randn(n, c, side, side, device="cuda").to(dtype)
        y = torch.randn(n, groups * 64, side, side, device="cuda").to(dtype)
        if layout == "nhwc":
            x = x.contiguous(memory_format=torch.channels_last)
            y = y.contiguous(memory_format=torch.channels_last)
        y = y.unflatten(1, (groups, 64))
        weight = (torch.randn(3, c * k * k, 64, device="cuda") / 8).to(dtype)
        bias = torch.randn(3, c * k * k, device="cuda").to(dtype)
        torch.backends.cuda.matmul.allow_tf32 = tf32
        def call():
            return ops.generated_dynamic_filter(x, y, weight, bias, DILATIONS)
        def peer(as_type=dtype, count=None):
            return unfold_module(x[:count].contiguous().to(as_type), y[:count].contiguous().to(as_type),
                                 weight.to(as_type), bias.to(as_type))
        exact = peer(torch.double, 1)
        own_error = relative_error(call()[:1], exact)
        peer_error = relative_error(peer(dtype, 1), exact)
        time_of = timed_in_graph(call, repeats)
        pixels = n * side * side
        row = dict(op="generated", n=n, c=c, k=k, side=side, groups=groups, type=str(dtype)[6:],
                   tf32=tf32, layout=layout, graph=True, us=time_of["median"], p5=time_of["p5"],
                   p95=time_of["p95"],
                   TFLOPs=2 * 3 * c * k * k * 65 * pixels / time_of["median"] / 1e6,
                   error=own_error, unfold_error=peer_error, good=own_error <= 2 * peer_error + 1e-7)
        if peers and not options.own:
            row["unfold_us"] = timed(peer, 5)["median"]
        torch.backends.cuda.matmul.allow_tf32 = False
        record(**row)

    def backward_row(n, c, k, side, dtype, layout="nchw"):
        x = torch.randn(n, c, side, side, device="cuda").to(dtype)
        kernels = torch.randn(n, 3, c, k * k, side, side, device="cuda", dtype=dtype)
        grad = torch.randn(n, 3 * c, side, side, device="cuda").to(dtype)
        if layout == "nhwc":
            x = x.contiguous(memory_format=torch.channels_last)
            grad = grad.contiguous(memory_format=torch.channels_last)
            kernels = channels_last_taps(kernels)
        x.requires_grad_()
        kernels.requires_grad_()
        def backward_of(function):
            result = function(x, kernels)
            return timed(lambda: torch.autograd.grad(result, (x, kernels), grad, retain_graph=True), 15)
        own = backward_of(lambda a, b: ops.dynamic_filter(a, b, DILATIONS))["median"]
        row = dict(op="backward", n=n, c=c, k=k, side=side, type=str(dtype)[6:], layout=layout, us=own,
                   share=(6 * k * k + 8) * n * c * side * side * x.element_size() / own * 1e6 / ceiling)
        if not options.own:
            row["unfold_us"] = backward_of(unfold_filter)["median"]
            row["speedup"] = row["unfold_us"] / own
        record(**row)

    def generated_backward_row(n, c, source, groups, side, dtype):
        def last(*shape):
            return torch.randn(*shape, device="cuda").to(dtype).contiguous(memory_format=torch.channels_last)
        x, y = last(n, c, side, side).requires_grad_(), last(n, groups * source, side, side).requires_grad_()
        weight = (torch.randn(3, c * 9, source, device="cuda") / 8).to(dtype).requires_grad_()
        bias = torch.randn(3, c * 9, device="cuda").to(dtype).requires_grad_()
        result = ops.generated_dynamic_filter(x, y.unflatten(1, (groups, source)), weight, bias, DILATIONS)
        grad = last(n, 3 * c, side, side)
        time_of = timed(lambda: torch.autograd.grad(result, (x, y, weight, bias), grad, retain_graph=True), 15)
        record(op="generated_backward", n=n, c=c, k=3, side=side, source=source, groups=groups,
               type=str(dtype)[6:], layout="nhwc", us=time_of["median"])

    half, bfloat16, single = torch.half, torch.bfloat16, torch.float
    for side in (20, 40, 80):
        for layout in ("nchw", "nhwc"):
            filter_row(1, 16, 3, side, half, layout, peers=False, graph=True)
    for dtype in (single, half, bfloat16):
        filter_row(32, 16, 3, 80, dtype, "nchw")
        filter_row(4, 64, 3, 256, dtype, "nchw")
    for dtype in (single, half, bfloat16):
        filter_row(32, 16, 3, 80, dtype, "nhwc", peers=False)
        filter_row(4, 64, 3, 256, dtype, "nhwc", peers=False)
    for layout in ("nchw", "nhwc"):
        for dtype in (single, half, bfloat16):
            filter_row(1, 16, 3, 80, dtype, layout, peers=False, graph=True)
    for k in (5, 7):
        for dtype in (single, half, bfloat16):
            filter_row(4, 64, k, 256, dtype, "nchw", peers=dtype == half)
    filter_row(4, 64, 1, 256, half, "nchw", peers=False)
    for layout in ("nchw", "nhwc"):
        for dtype in (half, bfloat16):
            generated_row(1, 64, 3, 128, 1, dtype, layout, peers=layout == "nchw")
            generated_row(1, 64, 3, 256, 1, dtype, layout)
        generated_row(32, 16, 3, 80, 3, half, layout, peers=layout == "nchw")
        generated_row(32, 16, 3, 80, 1, half, layout)
        generated_row(32, 16, 3, 40, 3, half, layout)
        generated_row(32, 16, 3, 80, 3, single, layout, tf32=True)
        generated_row(1, 64, 3, 128, 1, single, layout, tf32=True)
        generated_row(1, 64, 3, 256, 1, single, layout, tf32=True)
        generated_row(1, 64, 3, 128, 1, single, layout)
        for side in (20, 40, 80):
            generated_row(1, 16, 3, side, 3, half, layout)
    for layout in ("nchw", "nhwc"):
        for dtype in (single, half, bfloat16):
            backward_row(32, 16, 3, 80, dtype, layout)
            backward_row(4, 64, 3, 256, dtype, layout)
        backward_row(4, 64, 3, 128, half, layout)
        backward_row(1, 64, 5, 128, half, layout)
    for dtype in (single, half, bfloat16):
        generated_backward_row(1, 64, 64, 1, 128, dtype)
        generated_backward_row(1, 64, 64, 1, 256, dtype)
        generated_backward_row(32, 16, 64, 3, 80, dtype)

    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                       "date": time.strftime("%Y-%m-%d"), "rows": rows}, file, indent=1)
    return 0 if all(row.get("good", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
