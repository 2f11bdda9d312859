"""Times hdfnet::concat_conv2d beside torch.cat and cuDNN at the network's shapes, and with it the first
convolutions (hdfnet::stem_conv2d), poolings (hdfnet::max_pool2d), 1x1 transports, ends of ResNet-50's blocks
(hdfnet::conv2d_add) and upsamplings (hdfnet::upsample_add, hdfnet::upsample_bilinear2d) beside theirs.

    python3 ops/bench/convolutions.py build/lib/libhdfnet_ops.so [--batch 1,32] [--only WORD,...] [--json FILE]

fp16, channels_last; medians of CUDA-event timings of one call, in microseconds, each side replayed from a
CUDA graph of ten calls. Both results are first compared with float64. TFLOP/s count the convolution's own
products, not the zeros of cuDNN's ungrouped form. For what memory bounds (stem, pool, trans, block, upsample) the
table gives the bytes that must be moved, each once, over the time instead, in TB/s. --only takes rows whose names
begin with a WORD: stem,pool,trans.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F

# name, side, groups, channels of a group of each input, outputs of a group, kernel
SHAPES = []
for stride, side in ((16, 20), (8, 40), (4, 80)):
    for i in range(1, 5):
        SHAPES.append((f"selfdc_{stride} dense {i}", side, 3, [16] * i, 16, 3))
    SHAPES.append((f"selfdc_{stride} first", side, 1, [64], 240, 3))
    SHAPES.append((f"selfdc_{stride} merge", side, 3, [64, 16], 64, 3))
    SHAPES.append((f"selfdc_{stride} output", side, 3, [16], 16, 3))
    SHAPES.append((f"selfdc_{stride} fuse", side, 1, [16, 48], 64, 3))
    wide = {16: 512, 8: 512, 4: 256}[stride]
    for i in range(1, 5):
        SHAPES.append((f"depth_trans{stride} dense {i}", side, 1, [64] * i, 64, 3))
    SHAPES.append((f"depth_trans{stride} fuse", side, 1, [wide, 64], wide, 3))
    SHAPES.append((f"depth_trans{stride} down", side, 1, [wide], 64, 1))
    SHAPES.append((f"upconv{stride}", side, 1, [64], 64, 3))
SHAPES += [("upconv2", 160, 1, [64], 32, 3), ("upconv1", 320, 1, [32], 32, 3),
           ("encoder1", 320, 1, [64], 64, 3), ("encoder2 first", 160, 1, [64], 128, 3),
           ("encoder2", 160, 1, [128], 128, 3), ("encoder4 first", 80, 1, [128], 256, 3),
           ("encoder4", 80, 1, [256], 256, 3)]
# name, side, inputs, outputs, outputs of the 1x1 at its side
STAGE_ENDS = [("encoder1 end", 320, 64, 64, 32), ("depth_encoder1 end", 320, 64, 64, 0),
              ("encoder2 end", 160, 128, 128, 64), ("depth_encoder2 end", 160, 128, 128, 0)]


# name, side, channels, outputs, kernel, stride: from float32, as the network's inputs come
STEMS = [("stem 3 channels", 320, 3, 64, 3, 1), ("stem 1 channel", 320, 1, 64, 3, 1),
         ("stem 3 channels, 7x7", 320, 3, 64, 7, 2), ("stem 1 channel, 7x7", 320, 1, 64, 7, 2)]
# name, side, channels, kernel, padding
POOLS = [(f"pool {c} channels, {side}", side, c, 2, 0)
         for side, c in ((320, 64), (160, 128), (80, 256), (40, 512))] + [("pool 3x3", 160, 64, 3, 1)]
# name, side, channels, outputs: no ReLU, so cuDNN's bias is a kernel of its own
TRANSPORTS = [("trans1", 320, 64, 32), ("trans2", 160, 128, 64), ("trans4", 80, 256, 64), ("trans8", 40, 512, 64),
              ("trans16", 20, 512, 64)]
# name, side, channels, outputs
BLOCKS = [(f"block end {4 * c}", side, c, 4 * c) for side, c in ((80, 64), (40, 128), (20, 256), (10, 512))]
# name, side of the result, channels, whether another map is added (else aligned corners)
UPSAMPLINGS = [("upsample_add 2", 160, 64, True), ("upsample_add 1", 320, 32, True), ("upsample x2", 320, 32, False)]
KIND = dict(device="cuda", dtype=torch.half)


def ungroup(weight, groups):
    outputs, inputs, k, _ = weight.shape
    plain = weight.new_zeros(outputs, inputs * groups, k, k)
    step = outputs // groups
    for g in range(groups):
        plain[g * step:(g + 1) * step, g * inputs:(g + 1) * inputs] = weight[g * step:(g + 1) * step]
    return plain


def join(maps, groups):
    if len(maps) == 1:
        return maps[0]
    return torch.cat([m.chunk(groups, 1)[g] for g in range(groups) for m in maps], 1)


def microseconds(call, calls=10, replays=30):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def stage_end(batch, side, inputs, outputs, side_outputs):
    """Calls of conv2d_pool and of its parts by cuDNN and ATen; FLOPs."""
    kind = dict(device="cuda", dtype=torch.half)
    last = torch.channels_last
    x = torch.randn(batch, inputs, side, side, **kind).contiguous(memory_format=last)
    weight = (torch.randn(outputs, inputs, 3, 3, **kind) / (9 * inputs) ** 0.5).contiguous(memory_format=last)
    bias = torch.randn(outputs, **kind)
    weight_1, bias_1 = None, None
    if side_outputs:
        weight_1 = (torch.randn(side_outputs, outputs, 1, 1, **kind) / outputs ** 0.5
                    ).contiguous(memory_format=last)
        bias_1 = torch.randn(side_outputs, **kind)

    def ours():
        return torch.ops.hdfnet.conv2d_pool([x], weight, bias, weight_1, bias_1)

    def peer():
        y = torch.ops.aten.cudnn_convolution_relu(x, weight, bias, [1, 1], [1, 1], [1, 1], 1)
        return F.max_pool2d(y, 2), F.conv2d(y, weight_1, bias_1) if side_outputs else y

    y = F.relu(F.conv2d(x[:2].double(), weight.double(), bias.double(), padding=1))
    exact = [F.max_pool2d(y, 2)]
    if side_outputs:
        exact.append(F.conv2d(y, weight_1.double(), bias_1.double()))
    errors = [max((result[:2].double() - wanted).abs().max().item() for result, wanted in zip(call(), exact))
              for call in (ours, peer)]
    return ours, peer, errors, 2.0 * batch * side * side * outputs * (9 * inputs + side_outputs)


def random_map(batch, channels, side):
    return torch.randn(batch, channels, side, side, **KIND).contiguous(memory_format=torch.channels_last)


def random_weight(outputs, inputs, k):
    return torch.randn(outputs, inputs, k, k, **KIND) / (inputs * k * k) ** 0.5


def stem(batch, side, channels, outputs, k, stride):
    x = torch.randn(batch, channels, side, side, device="cuda")
    weight, bias = random_weight(outputs, channels, k), torch.randn(outputs, **KIND)
    last = weight.contiguous(memory_format=torch.channels_last)

    def ours():
        return torch.ops.hdfnet.stem_conv2d(x, weight, bias, stride, True)

    def peer():  # with the conversion that it needs
        return torch.ops.aten.cudnn_convolution_relu(
            x.half().contiguous(memory_format=torch.channels_last), last, bias, [stride] * 2, [k // 2] * 2, [1, 1], 1)

    exact = F.relu(F.conv2d(x[:2].half().double(), weight.double(), bias.double(), stride=stride, padding=k // 2))
    return ours, peer, exact, x.numel() * 4


def pool(batch, side, channels, k, padding):
    x = random_map(batch, channels, side)
    return (lambda: torch.ops.hdfnet.max_pool2d(x, k, 2, padding), lambda: F.max_pool2d(x, k, 2, padding),
            F.max_pool2d(x[:2].double(), k, 2, padding), x.numel() * 2)


def transport(batch, side, channels, outputs):
    x, bias = random_map(batch, channels, side), torch.randn(outputs, **KIND)
    weight = random_weight(outputs, channels, 1).contiguous(memory_format=torch.channels_last)

    def peer():
        return torch.cudnn_convolution(x, weight, [0, 0], [1, 1], [1, 1], 1, False, False, False).add_(
            bias.view(1, -1, 1, 1))

    return (lambda: torch.ops.hdfnet.concat_conv2d([x], weight, bias, 1, False), peer,
            F.conv2d(x[:2].double(), weight.double(), bias.double()), x.numel() * 2)


def block_end(batch, side, channels, outputs):
    x, other = random_map(batch, channels, side), random_map(batch, outputs, side)
    weight = random_weight(outputs, channels, 1).contiguous(memory_format=torch.channels_last)
    bias = torch.randn(outputs, **KIND)

    def peer():
        return torch.ops.aten.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, [1, 1], [0, 0], [1, 1], 1)

    return (lambda: torch.ops.hdfnet.conv2d_add(x, weight, bias, other, True), peer,
            F.relu(F.conv2d(x[:2].double(), weight.double(), bias.double()) + other[:2].double()),
            (x.numel() + other.numel()) * 2)


def upsampling(batch, side, channels, add):
    x = random_map(batch, channels, side // 2)
    y = random_map(batch, channels, side) if add else None

    def upsample(maps):
        return F.interpolate(maps, size=(side, side), mode="bilinear", align_corners=not add)

    if add:
        return (lambda: torch.ops.hdfnet.upsample_add(x, y), lambda: y + upsample(x),
                y[:2].double() + upsample(x[:2].double()), (x.numel() + y.numel()) * 2)
    return (lambda: torch.ops.hdfnet.upsample_bilinear2d(x, side, side, True), lambda: upsample(x),
            upsample(x[:2].double()), x.numel() * 2)


def bound_by_memory(batch, wanted):
    for make, shapes in ((stem, STEMS), (pool, POOLS), (transport, TRANSPORTS), (block_end, BLOCKS),
                         (upsampling, UPSAMPLINGS)):
        for name, *shape in shapes:
            if not wanted(name):
                continue
            ours, peer, exact, bytes_in = make(batch, *shape)
            errors = [(call()[:2].double() - exact).abs().max().item() for call in (ours, peer)]
            out = ours()
            moved = bytes_in + out.numel() * out.element_size()
            own, other = microseconds(ours), microseconds(peer)
            yield dict(batch=batch, name=name, ours_us=own, peer_us=other, tb_per_s=moved / own / 1e6,
                       error=errors[0], peer_error=errors[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()

    def wanted(name):
        return name.startswith(tuple(options.only.split(",")))

    torch.ops.load_library(options.library)
    torch.backends.cudnn.allow_tf32 = False
    rows = []
    print("| batch | what | ours us | cat + cuDNN us | ratio | TFLOP/s | error, ours / cuDNN |\n"
          "|---|---|---|---|---|---|---|")
    with torch.inference_mode():
        for batch in map(int, options.batch.split(",")):
            for name, side, groups, channels, outputs, k in SHAPES:
                if not wanted(name):
                    continue
                kind = dict(device="cuda", dtype=torch.half)
                maps = [torch.randn(batch, groups * c, side, side, **kind).contiguous(
                    memory_format=torch.channels_last) for c in channels]
                total = sum(channels)
                weight = (torch.randn(groups * outputs, total, k, k, **kind) / (total * k * k) ** 0.5
                          ).contiguous(memory_format=torch.channels_last)
                bias = torch.randn(groups * outputs, **kind)
                plain = ungroup(weight, groups).contiguous(memory_format=torch.channels_last)

                def ours():
                    return torch.ops.hdfnet.concat_conv2d(maps, weight, bias, groups, True)

                def peer():
                    return torch.ops.aten.cudnn_convolution_relu(
                        join(maps, groups), plain, bias, [1, 1], [k // 2, k // 2], [1, 1], 1)

                errors = []
                few = [m[:2].double() for m in maps]
                exact = F.relu(F.conv2d(join(few, groups), weight.double(), bias.double(),
                                        padding=k // 2, groups=groups))
                for call in (ours, peer):
                    errors.append((call()[:2].double() - exact).abs().max().item())
                own, other = microseconds(ours), microseconds(peer)
                flop = 2.0 * batch * side * side * groups * outputs * total * k * k
                rows.append(dict(batch=batch, name=name, ours_us=own, cudnn_us=other,
                                 tflops=flop / own / 1e6, error=errors[0], cudnn_error=errors[1]))
                print(f"| {batch} | {name} | {own:.2f} | {other:.2f} | {other / own:.2f} | "
                      f"{flop / own / 1e6:.0f} | {errors[0]:.1e} / {errors[1]:.1e} |", flush=True)
            for name, *sizes in STAGE_ENDS:
                if not wanted(name):
                    continue
                ours, peer, errors, flop = stage_end(batch, *sizes)
                own, other = microseconds(ours), microseconds(peer)
                rows.append(dict(batch=batch, name=name, ours_us=own, cudnn_us=other,
                                 tflops=flop / own / 1e6, error=errors[0], cudnn_error=errors[1]))
                print(f"| {batch} | {name} | {own:.2f} | {other:.2f} | {other / own:.2f} | "
                      f"{flop / own / 1e6:.0f} | {errors[0]:.1e} / {errors[1]:.1e} |", flush=True)
        print("\n| batch | what | ours us | cuDNN or ATen us | ratio | TB/s | error, ours / theirs |\n"
              "|---|---|---|---|---|---|---|")
        for batch in map(int, options.batch.split(",")):
            for row in bound_by_memory(batch, wanted):
                rows.append(row)
                print(f"| {batch} | {row['name']} | {row['ours_us']:.2f} | {row['peer_us']:.2f} | "
                      f"{row['peer_us'] / row['ours_us']:.2f} | {row['tb_per_s']:.2f} | "
                      f"{row['error']:.1e} / {row['peer_error']:.1e} |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(device=torch.cuda.get_device_name(), torch=torch.__version__, rows=rows), file,
                      indent=1)


if __name__ == "__main__":
    main()
