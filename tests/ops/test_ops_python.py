"""The operators as Python sees them: loading, opcheck, torch.compile, torch.export, TorchScript, autocast,
gradients.

HDFNET_OPS_LIBRARY names libhdfnet_ops.so.
"""

import os
import pathlib
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

torch.ops.load_library(os.environ["HDFNET_OPS_LIBRARY"])
OPS = torch.ops.hdfnet
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "ops" / "python"))
from hdfnet_ops import DDPM  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def filter_arguments(device, dtype=torch.double, requires_grad=False):
    x = torch.randn(2, 3, 6, 5, device=device, dtype=dtype, requires_grad=requires_grad)
    kernels = torch.randn(2, 2, 3, 9, 6, 5, device=device, dtype=dtype, requires_grad=requires_grad)
    return x, kernels, [1, 2], True


def generated_arguments(device, dtype=torch.double, requires_grad=False, bias=True):
    def randn(*shape):
        return torch.randn(*shape, device=device, dtype=dtype, requires_grad=requires_grad)

    return randn(2, 3, 6, 5), randn(2, 1, 4, 6, 5), randn(2, 27, 4), randn(2, 27) if bias else None, [1, 2], False


def by_unfold(x, kernels, dilations):
    n, c, h, w = x.shape
    parts = []
    for b, d in enumerate(dilations):
        windows = F.unfold(x, 3, dilation=d, padding=d).view(n, c, 9, h, w)
        parts.append((windows * kernels[:, b]).sum(2))
    return torch.cat(parts, 1)


class Operators(unittest.TestCase):
    def test_opcheck_of_the_convolutions(self):
        # Gradients are those of the composites that they are made of.
        checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        for device in DEVICES:
            with self.subTest(device=device):
                kind = dict(device=device)
                x, y = torch.randn(2, 8, 6, 10, **kind), torch.randn(2, 8, 12, 20, **kind)
                weight, bias = torch.randn(16, 16, 3, 3, **kind), torch.randn(16, **kind)
                one, one_bias = torch.randn(1, 16, 1, 1, **kind), torch.randn(1, **kind)
                for operator, arguments in (
                        (OPS.concat_conv2d, ([x, x], weight, bias, 1, True)),
                        (OPS.conv2d_pool, ([x, x], weight, bias, torch.randn(4, 16, 1, 1, **kind),
                                           torch.randn(4, **kind))),
                        (OPS.conv2d_head, (torch.randn(2, 16, 6, 10, **kind), weight, bias, one, one_bias)),
                        (OPS.stem_conv2d, (torch.randn(2, 3, 6, 10, **kind), torch.randn(16, 3, 3, 3, **kind), bias,
                                           1, True)),
                        (OPS.max_pool2d, (x, 2, 2, 0)),
                        (OPS.upsample_add, (x, y)),
                        (OPS.upsample_bilinear2d, (x, 9, 13, True)),
                        (OPS.conv2d_add, (x, weight[:, :8].contiguous(), bias, torch.randn(2, 16, 6, 10, **kind))),
                        (OPS.bias_relu_, (x.clone(), torch.randn(8, **kind), x, True))):
                    torch.library.opcheck(operator.default, arguments, test_utils=checks)

    def test_opcheck(self):
        for device in DEVICES:
            with self.subTest(device):
                torch.library.opcheck(OPS.dynamic_filter.default, filter_arguments(device, requires_grad=True))
                for bias in (True, False):
                    torch.library.opcheck(OPS.generated_dynamic_filter.default,
                                          generated_arguments(device, requires_grad=True, bias=bias))

    def test_opcheck_of_the_gradients(self):
        checks = ("test_schema", "test_faketensor")
        for device in DEVICES:
            x, kernels, dilations, concat = filter_arguments(device, torch.float)
            grad = torch.randn_like(OPS.dynamic_filter(x, kernels, dilations, concat))
            for needs in ([True, True], [True, False], [False, True]):
                with self.subTest(device=device, needs=needs):
                    torch.library.opcheck(OPS.dynamic_filter_backward.default,
                                          (grad, x, kernels, dilations, concat, needs), test_utils=checks)
            # the second: one row of weight, of which the bias is the last column
            for c, k, last in ((4, 3, False), (1, 1, False), (16, 3, True)):
                x, y = torch.randn(2, c, 5, 6, device=device), torch.randn(2, 8, 5, 6, device=device)
                if last:
                    x, y = (t.contiguous(memory_format=torch.channels_last) for t in (x, y))
                y = y.unsqueeze(1)
                weight, bias = torch.randn(1, c * k * k, 8, device=device), torch.randn(1, c * k * k, device=device)
                for needs in ([True] * 4, [False, True, False, True]):
                    with self.subTest(device=device, c=c, last=last, needs=needs):
                        torch.library.opcheck(OPS.generated_dynamic_filter_backward.default,
                                              (torch.randn_like(x), x, y, weight, bias, [2], False, needs),
                                              test_utils=checks)

    def test_gradcheck(self):
        for device in DEVICES:
            with self.subTest(device):
                x, kernels, dilations, concat = filter_arguments(device, requires_grad=True)
                self.assertTrue(torch.autograd.gradcheck(
                    lambda a, b: OPS.dynamic_filter(a, b, dilations, concat), (x, kernels)))
                x, y, weight, bias, dilations, _ = generated_arguments(device, requires_grad=True)
                self.assertTrue(torch.autograd.gradcheck(
                    lambda *t: OPS.generated_dynamic_filter(*t, dilations), (x, y, weight, bias)))

    def test_compiles_without_a_graph_break(self):
        x, kernels, dilations, _ = filter_arguments("cpu", torch.float)

        def function(x, kernels):
            return OPS.dynamic_filter(x * 2, kernels, dilations) + 1

        explanation = torch._dynamo.explain(function)(x, kernels)
        self.assertEqual(explanation.graph_break_count, 0)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
        torch.testing.assert_close(compiled(x, kernels), function(x, kernels))
        x, kernels = x[:, :, :4], kernels[..., :4, :]  # another height: traced with symbolic sizes
        torch.testing.assert_close(compiled(x, kernels), function(x, kernels))

    def test_autocast_computes_in_its_type(self):
        x, kernels, dilations, _ = filter_arguments("cpu", torch.float)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = OPS.dynamic_filter(x, kernels.bfloat16(), dilations)
        self.assertEqual(result.dtype, torch.bfloat16)
        torch.testing.assert_close(result.float(), by_unfold(x, kernels, dilations), atol=0.2, rtol=0.05)


class Filters(torch.nn.Module):
    """Both operators among others."""

    def forward(self, x, kernels, y, weight):
        filtered = torch.ops.hdfnet.dynamic_filter(x * 2, kernels, [1, 2], False)
        return filtered + torch.ops.hdfnet.generated_dynamic_filter(x, y, weight, None, [1, 2], False)


def filters_arguments(height=6):
    return (torch.randn(2, 3, height, 5), torch.randn(2, 2, 3, 9, height, 5), torch.randn(2, 1, 4, height, 5),
            torch.randn(2, 27, 4))


OPERATORS = {"hdfnet::dynamic_filter", "hdfnet::generated_dynamic_filter"}


class InGraphs(unittest.TestCase):
    """The operators stay operators in whatever PyTorch makes of a module."""

    def agree(self, module):
        for height in (6, 9):
            arguments = filters_arguments(height)
            torch.testing.assert_close(module(*arguments), Filters()(*arguments))

    def test_compiled(self):
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph

        self.agree(torch.compile(Filters(), backend=backend, fullgraph=True, dynamic=True))
        self.assertEqual(len(graphs), 1)
        targets = {str(node.target).replace(".", "::", 1) for node in graphs[0].graph.nodes}
        self.assertLessEqual(OPERATORS, targets)

    def test_exported_saved_and_loaded(self):
        height = torch.export.Dim("height", min=2, max=64)
        shapes = {"x": {2: height}, "kernels": {4: height}, "y": {3: height}, "weight": None}
        program = torch.export.export(Filters(), filters_arguments(), dynamic_shapes=shapes)
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
            torch.export.save(program, file.name)
            loaded = torch.export.load(file.name)
        for found in (program, loaded, program.run_decompositions()):
            targets = {str(node.target).rpartition(".")[0].replace(".", "::") for node in found.graph.nodes}
            self.assertLessEqual(OPERATORS, targets)
            self.agree(found.module())

    def test_scripted_and_traced_saved_and_loaded(self):
        for made in (torch.jit.script(Filters()), torch.jit.trace(Filters(), filters_arguments())):
            self.agree(made)
            with tempfile.NamedTemporaryFile(suffix=".pt") as file:
                made.save(file.name)
                loaded = torch.jit.load(file.name)
            self.assertLessEqual(OPERATORS, {node.kind() for node in loaded.graph.nodes()})
            self.agree(loaded)


class DropInModule(unittest.TestCase):
    def test_equals_the_module_written_with_unfold(self):
        torch.manual_seed(0)
        module = DDPM(8, 6, 8, kernel_size=3, down_factor=2).double().eval()
        x, y = torch.randn(2, 8, 9, 7).double(), torch.randn(2, 6, 9, 7).double()
        reduced = module.down_input(x)
        results = []
        for branch in module.branches():
            taps = branch.gernerate_kernel(y).view(2, 1, 4, 9, 9, 7)
            results.append(branch.fuse(by_unfold(reduced, taps, [branch.dilation])))
        expected = module.fuse(torch.cat([reduced] + results, 1))
        torch.testing.assert_close(module(x, y), expected)

    def test_has_the_parameter_names_of_the_original(self):
        names = set(DDPM(64, 64, 64).state_dict())
        for name in ("down_input.weight", "branch_1.gernerate_kernel.0.weight",
                     "branch_3.gernerate_kernel.1.denseblock.3.basicconv.1.running_var",
                     "branch_5.gernerate_kernel.1.down.bias", "branch_5.gernerate_kernel.2.bias",
                     "branch_1.fuse.weight", "fuse.basicconv.0.weight"):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
