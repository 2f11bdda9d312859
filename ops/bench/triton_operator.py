"""Times both operators and their gradients beside the public Triton operator, in one process on one card.

    python3 ops/bench/triton_operator.py build/lib/libhdfnet_ops.so CHECKOUT [--json FILE] [--quick]

CHECKOUT is a folder with github.com/lartpang/DynamicConvolutionOperator (MIT), which is not part of
this project. Its kernels are compiled for each shape and type: minutes, which several processes share
(--jobs) before anything is timed. Medians of CUDA events: `graph` one call of ten in a CUDA graph, so
the kernels alone; `us` one call as Python makes it. nn.Unfold takes part as well. Every result is
first compared with float64: `error`, and `good` where it is at most twice that of nn.Unfold in
PyTorch's arithmetic in the same type. Of float32 both sides may use TF32 where the row says so: the
public operator's gradients of the generated filter always do. Peak memory is what a call adds, in MB.
"""

import argparse
import json
import multiprocessing
import sys
import time

import torch

from peers import DILATIONS, relative_error, timed, unfold_filter, unfold_module

CALLS = 10
TYPES = {"float32": torch.float, "float16": torch.half, "bfloat16": torch.bfloat16}
# batch, channels of x and y, kernel size, side
FILTERS = [(1, 64, 3, 128), (4, 64, 3, 128), (4, 64, 3, 256), (32, 16, 3, 80), (1, 64, 5, 128)]
GENERATED = [(1, 64, 3, 128), (4, 64, 3, 128), (1, 64, 3, 256), (32, 16, 3, 80)]


def load(options):
    torch.ops.load_library(options.library)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    sys.path.insert(0, options.checkout)
    import _triton_kernels

    return _triton_kernels


def in_graph(function, repeats):
    """Times `function`, which returns tensors, in a graph; the outputs of its replay are looked at."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            results = function()
    for result in results:
        result.fill_(float("nan"))
    time_of = timed(graph.replay, repeats)
    assert not any(result.isnan().any() for result in results), "the replay left an output unwritten"
    return {key: value / CALLS for key, value in time_of.items()}


def peak_of(function):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


class Case:
    """One operator on fresh random inputs: what is timed, for each of those who take part."""

    def __init__(self, public, op, shape, name):
        n, c, k, side = shape
        self.op, self.shape, self.name = op, shape, name
        dtype = TYPES[name]
        torch.manual_seed(1)
        x = torch.randn(n, c, side, side, device="cuda").to(dtype).requires_grad_()
        self.grad = torch.randn(n, 4 * c, side, side, device="cuda").to(dtype)
        if op == "filter":
            kernels = torch.randn(n, 3, c, k * k, side, side, device="cuda", dtype=dtype, requires_grad=True)
            self.inputs = (x, kernels)
            self.functions = {
                "own": lambda a, b: torch.ops.hdfnet.dynamic_filter(a, b, DILATIONS, True),
                "public": lambda a, b: public.fused_dynamic_cat(a, b, k, tuple(DILATIONS)),
                "unfold": lambda a, b: torch.cat([a, unfold_filter(a, b)], 1),
            }
        else:
            y = torch.randn(n, c, side, side, device="cuda").to(dtype).requires_grad_()
            weight = (torch.randn(3 * c * k * k, c, 1, 1, device="cuda") / 8).to(dtype).requires_grad_()
            bias = torch.randn(3 * c * k * k, device="cuda").to(dtype).requires_grad_()
            self.inputs = (x, y, weight, bias)

            def parts(y, weight, bias):
                return y.unsqueeze(1), weight.view(3, c * k * k, c), bias.view(3, c * k * k)

            self.functions = {
                "own": lambda a, *rest: torch.ops.hdfnet.generated_dynamic_filter(a, *parts(*rest), DILATIONS, True),
                "public": lambda a, *rest: public.fused_generator_dynamic_cat(a, *rest, k, tuple(DILATIONS)),
                "unfold": lambda a, *rest: torch.cat([a, unfold_module(a, *parts(*rest))], 1),
            }

    def forward(self, who):
        with torch.no_grad():
            return (self.functions[who](*self.inputs),)

    def backward_of(self, who, inputs=None, grad=None):
        inputs = self.inputs if inputs is None else inputs
        grad = self.grad if grad is None else grad
        # the backward alone, and on the stream that calls it
        detached = [tensor.detach().requires_grad_() for tensor in inputs]
        result = self.functions[who](*detached)
        return lambda: torch.autograd.grad(result, detached, grad, retain_graph=True)

    def backward(self, who):
        """Forward and backward, for graphs: autograd runs on the stream of the forward."""
        return self.backward_of(who)()

    def error(self, value, exact):
        return max(relative_error(a[: len(b)], b) for a, b in zip(value, exact))


def row_of(case, direction, repeats):
    row = dict(op=case.op, direction=direction, n=case.shape[0], c=case.shape[1], k=case.shape[2], side=case.shape[3],
               type=case.name)
    # float64, of one image: of parameters' gradients that is another sum, so all have one image
    one = tuple(t[:1] if i < 2 else t for i, t in enumerate(case.inputs))
    double = tuple(t.detach().double().requires_grad_() for t in one)
    small = tuple(t.detach().clone().requires_grad_() for t in one)
    if direction == "forward":
        exact = (case.functions["unfold"](*double).detach(),)
    else:
        exact = case.backward_of("unfold", double, case.grad[:1].double())()
    for who in ("own", "public", "unfold"):
        if direction == "forward":
            value = (case.functions[who](*small).detach(),)
        else:
            value = case.backward_of(who, small, case.grad[:1])()
        row[f"{who}_error"] = case.error(value, exact)
    row["good"] = row["own_error"] <= 2 * row["unfold_error"] + 1e-7
    del exact, double, value, small
    for who in ("own", "public", "unfold"):
        if direction == "forward":
            call = lambda: case.forward(who)
            row[f"{who}_us"] = timed(call, repeats)["median"]
            graph = call
        else:
            call = case.backward_of(who)
            row[f"{who}_us"] = timed(call, repeats)["median"]
            graph = lambda: case.backward(who)
        row[f"{who}_peak_mb"] = peak_of(call)
        del call
        if who == "unfold":
            continue
        time_of = in_graph(graph, repeats)
        if direction == "backward":  # what is timed holds the forward pass too
            forward = in_graph(lambda: case.forward(who), repeats)
            time_of = {"median": time_of["median"] - forward["median"]}
        row[f"{who}_graph"] = time_of["median"]
    row["public_over_own"] = row["public_graph"] / row["own_graph"]
    row["unfold_over_own"] = row["unfold_us"] / row["own_us"]
    return row


def compile_for(options, op, shape, name):
    public = load(options)
    case = Case(public, op, shape, name)
    start = time.perf_counter()
    case.forward("public")
    case.backward("public")
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("checkout")
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile the public operator's kernels")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    options = parser.parse_args()
    cases = [("filter", shape, name) for shape in FILTERS for name in TYPES]
    cases += [("generated", shape, name) for shape in GENERATED for name in TYPES]
    distinct = {(op, shape[1:], name): (op, shape, name) for op, shape, name in reversed(cases)}
    start = time.perf_counter()
    if options.jobs > 0:
        with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
            work = sorted(distinct.values(), key=lambda one: one[0] != "generated")
            took = pool.starmap(compile_for, [(options, *one) for one in work], chunksize=1)
        print(f"the public operator's kernels compiled: {time.perf_counter() - start:.0f} s by {options.jobs} processes,"
              f" {sum(took):.0f} s summed", flush=True)
    if options.compile_only:
        return 0

    public = load(options)
    torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = timed(lambda: target.copy_(source), 20)
    rate = 2 * source.numel() * 4 / copy["median"] / 1e6
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copy {rate:.2f} TB/s", flush=True)
    del source, target
    repeats = 9 if options.quick else 25
    rows = []
    for op, shape, name in cases:
        case = Case(public, op, shape, name)
        for direction in ("forward", "backward"):
            for tf32 in (False, True) if op == "generated" and name == "float32" else (False,):
                torch.backends.cuda.matmul.allow_tf32 = tf32
                row = row_of(case, direction, repeats) | dict(tf32=tf32)
                rows.append(row)
                print("  ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                                for key, value in row.items()), flush=True)
                torch.backends.cuda.matmul.allow_tf32 = False
        del case
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                       "date": time.strftime("%Y-%m-%d"), "copy_TBps": rate, "rows": rows}, file, indent=1)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
