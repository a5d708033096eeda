"""attnpress.conv2d: NumPy arrays and PyTorch tensors against float64, gradients by gradcheck, over
random shapes and ResNet-50's layers; memory layouts; errors. On a GPU the shapes are whole, on the
CPU small."""

from __future__ import annotations

import numpy as np
import pytest

from attnpress import conv2d as cv

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
HAS_GPU = torch is not None and torch.cuda.is_available()
DEVICES = ["cpu"] + (["cuda"] if HAS_GPU else [])
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="no GPU")
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-50}


def plain(x, weight, bias, stride, padding, dilation):
    """The convolution of NumPy arrays in float64, tap by tap."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    (p0, p1), (s0, s1), (d0, d1) = padding, stride, dilation
    padded = np.pad(x, ((0, 0), (0, 0), (p0, p0), (p1, p1)))
    height = (padded.shape[2] - d0 * (weight.shape[2] - 1) - 1) // s0 + 1
    width = (padded.shape[3] - d1 * (weight.shape[3] - 1) - 1) // s1 + 1
    out = np.zeros((x.shape[0], weight.shape[0], height, width))
    for r in range(weight.shape[2]):
        for s in range(weight.shape[3]):
            at = padded[:, :, r * d0 :: s0, s * d1 :: s1][:, :, :height, :width]
            out += np.einsum("nchw,kc->nkhw", at, weight[:, :, r, s])
    return out if bias is None else out + bias.astype(np.float64)[:, None, None]


CASES = [
    # batch, channels, height, width, filters, r, s, stride, padding, dilation
    (2, 8, 5, 6, 16, 3, 3, (1, 1), (1, 1), (1, 1)),
    (1, 24, 9, 7, 8, 1, 1, (2, 2), (0, 0), (1, 1)),
    (3, 16, 8, 11, 24, 3, 5, (2, 1), (1, 3), (1, 2)),
    (1, 8, 12, 12, 8, 3, 3, (4, 2), (2, 1), (2, 2)),
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("relu", [False, True])
def test_numpy(dtype, case, relu):
    batch, channels, height, width, filters, r, s, *steps = case
    random = np.random.default_rng(0)
    x = random.standard_normal((batch, channels, height, width)).astype(dtype)
    weight = random.standard_normal((filters, channels, r, s)).astype(dtype)
    bias = random.standard_normal(filters).astype(dtype)
    ref = plain(x, weight, bias, *steps)
    out = cv.conv2d(x, weight, bias, *steps, relu=relu)
    ref = np.maximum(ref, 0.0) if relu else ref
    assert out.dtype == dtype and out.shape == ref.shape
    assert out.transpose(0, 2, 3, 1).flags.c_contiguous
    bound = ROUNDING[np.dtype(dtype).name] * 2 * np.abs(ref).max()
    assert np.abs(out.astype(np.float64) - ref).max() <= bound
    # The gradient is a transpose: <dout, conv(x)> = <dx, x> = <dweight, weight>.
    dout = random.standard_normal(out.shape).astype(dtype)
    dx, dweight, dbias = cv.backward(dout, x, weight, out, *steps, relu)
    passed = dout.astype(np.float64) * ((out > 0) if relu else 1)
    total = (passed * plain(x, weight, None, *steps)).sum()
    size = np.abs(passed * plain(np.abs(x), np.abs(weight), None, *steps)).sum()
    for got, by in ((dx, x), (dweight, weight)):
        assert got.shape == by.shape and got.dtype == dtype
        linear = (got.astype(np.float64) * by.astype(np.float64)).sum()
        assert abs(linear - total) <= ROUNDING[np.dtype(dtype).name] * size
    sums = passed.sum(axis=(0, 2, 3))
    assert np.abs(dbias - sums).max() <= ROUNDING[np.dtype(dtype).name] * 2 * np.abs(sums).max()
    assert cv.backward(dout, x, weight, out, *steps, relu, (False, True, False))[::2] == (
        None,
        None,
    )


def test_numpy_layouts():
    """Arrays of any strides are read; those whose channels come last are not copied."""
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 8, 6, 5)).astype(np.float32)
    weight = random.standard_normal((8, 8, 3, 3)).astype(np.float32)
    expected = cv.conv2d(x, weight)
    wide = np.zeros((2, 9, 8, 16), np.float32)  # lines and pixels with gaps
    wide[:, :6, :5, :8] = x.transpose(0, 2, 3, 1)
    layouts = {
        "last": np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
        "gaps": wide[:, :6, :5, :8].transpose(0, 3, 1, 2),
        "upside down": np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1],
        "odd": np.repeat(x, 2, axis=1)[:, ::2],
    }
    for name, value in layouts.items():
        np.testing.assert_array_equal(value, x)
        np.testing.assert_array_equal(cv.conv2d(value, weight), expected, err_msg=name)
    kept = cv.Conv2dArgs()
    library = cv.library_of("x", x)
    for name in ("last", "gaps"):
        image = cv._give_image(library, kept, "x", layouts[name])
        assert image.base is not None and kept.x == layouts[name].ctypes.data


def test_empty():
    x, weight = np.zeros((0, 8, 5, 5), np.float32), np.ones((16, 8, 3, 3), np.float32)
    assert cv.conv2d(x, weight).shape == (0, 16, 3, 3)
    dx, dweight, dbias = cv.backward(np.zeros((0, 16, 3, 3), np.float32), x, weight)
    assert dx.shape == x.shape and (dweight == 0).all() and (dbias == 0).all()


X, W = np.zeros((1, 8, 4, 4), np.float32), np.zeros((16, 8, 3, 3), np.float32)


def test_whole_numbers():
    """Of any library, and of no other kind, whatever came before."""
    assert cv.conv2d(X, W, stride=np.int64(2)).shape == (1, 16, 1, 1)
    assert cv.conv2d(X, W, stride=np.array([2, 1])).shape == (1, 16, 1, 2)
    assert cv.conv2d(X, W, stride=2).shape == cv.conv2d(X, W, stride=[2]).shape == (1, 16, 1, 1)
    for stride in (2.0, (2.0, 2)):
        with pytest.raises(ValueError, match="it must be a whole number, or two"):
            cv.conv2d(X, W, stride=stride)


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([1.0], W), TypeError, "x is list"),
        ((X, [1.0]), TypeError, "weight is list"),
        ((X[0], W), ValueError, "x has 3 dimensions"),
        ((X, W[:, :4]), ValueError, "groups are not supported"),
        ((X, W.astype(np.float16)), ValueError, "float16"),
        ((X[:, :4], W[:, :4]), ValueError, "channels are 4; they must be a multiple of 8"),
        ((X, W[:12]), ValueError, "filters are 12"),
        ((X, W, np.zeros(8, np.float32)), ValueError, "bias has shape"),
        ((X, W, None, 0), ValueError, "stride is 0"),
        ((X, W, None, 1, "same"), ValueError, "words are not supported"),
        ((X, W, None, (1, 2, 3)), ValueError, "a whole number, or two"),
        ((X, W, None, 1.5), ValueError, "stride is 1.5; it must be a whole number"),
        ((X, W, None, [[1], [2]]), ValueError, "it must be a whole number, or two"),
        ((X, W, None, 1, 0, 2), ValueError, "there is no output"),
        ((X.astype(int), W.astype(int)), ValueError, "int64"),
        ((np.ma.masked_array(X), W), TypeError, "x is a masked array"),
    ],
)
def test_errors(arguments, error, says):
    with pytest.raises(error, match=says):
        cv.conv2d(*arguments)


def test_backward_errors():
    with pytest.raises(ValueError, match="dout has shape"):
        cv.backward(X, X, W)
    with pytest.raises(TypeError, match="out is NoneType"):
        cv.backward(np.zeros((1, 16, 2, 2), np.float32), X, W, relu=True)
    with pytest.raises(ValueError, match=r"needs is .*; it must say of each, x, weight, bias"):
        cv.backward(cv.conv2d(X, W), X, W, needs=(True,))


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("relu", [False, True])
def test_gradcheck(relu):
    torch.manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 8, 4, 5), (8, 8, 3, 2), (8,))
    )
    assert torch.autograd.gradcheck(
        lambda *inputs: cv.conv2d(*inputs, stride=(2, 1), padding=1, dilation=(1, 2), relu=relu),
        (x, weight, bias),
    )


def check_torch(case, dtype, device, relu, with_bias, layout):
    """Out and all gradients against PyTorch in float64: an element may be off by what rounding
    costs, and by a few roundings of fp32 in its terms."""
    batch, channels, height, width, filters, r, s, stride, padding, dilation = case
    steps = {"stride": stride, "padding": padding, "dilation": dilation}
    generator = torch.Generator().manual_seed(height * 1000 + width)

    def normal(*shape):
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    x = normal(batch, channels, height, width)
    if layout == "last":
        x = x.contiguous(memory_format=torch.channels_last)
    inputs = [x, normal(filters, channels, r, s)] + ([normal(filters)] if with_bias else [])
    ours = [value.clone().requires_grad_() for value in inputs]
    exact = [value.double().requires_grad_() for value in inputs]
    sizes = [value.double().abs().requires_grad_() for value in inputs]
    out = cv.conv2d(*ours, relu=relu, **steps)
    ref = torch.nn.functional.conv2d(*exact, **steps)
    size = torch.nn.functional.conv2d(*sizes, **steps)
    assert out.is_contiguous(memory_format=torch.channels_last) and out.shape == ref.shape
    assert out.stride() == (out[0].numel(), 1, out.shape[3] * filters, filters) or 1 in out.shape
    dout = normal(*out.shape)
    out.backward(dout)
    passed = dout.double() * (out > 0) if relu else dout.double()
    ref.backward(passed)
    size.backward(passed.abs())
    pairs = [(out.detach(), ref.clamp(min=0) if relu else ref, size)]
    pairs += [(a.grad, b.grad, s.grad) for a, b, s in zip(ours, exact, sizes)]
    rounding = ROUNDING[str(dtype).rpartition(".")[2]]
    least = 2.0**-24 if dtype == torch.float16 else 0.0
    for name, (got, want, terms) in zip(("out", "dx", "dweight", "dbias"), pairs):
        bound = rounding * 1.01 * want.abs() + 4e-6 * terms + least
        assert ((got.double() - want).abs() <= bound).all(), (name, case)


def random_cases(count, largest):
    """Shapes of all kinds, of at most so many multiplications."""
    random = np.random.default_rng(7)
    found = []
    while len(found) < count:
        r, s = (int(random.integers(1, 6)) for _ in range(2))
        stride, padding, dilation = (
            tuple(int(n) for n in random.integers(low, high, 2))
            for low, high in ((1, 4), (0, 4), (1, 4))
        )
        channels, filters = (8 * int(random.integers(1, 20)) for _ in range(2))
        height, width = (int(n) for n in random.integers(1, 40, 2))
        batch = int(random.integers(1, 5))
        case = (batch, channels, height, width, filters, r, s, stride, padding, dilation)
        if any(
            size + 2 * padding[i] <= dilation[i] * (filter - 1)
            for i, (size, filter) in enumerate(((height, r), (width, s)))
        ):
            continue
        if batch * height * width * channels * filters * r * s <= largest:
            found.append(case)
    return found


def at_an_element(value, channels_last):
    """The tensor's values without gaps, from the second element of their memory on."""
    order = (0, 2, 3, 1) if channels_last else (0, 1, 2, 3)
    back = (0, 3, 1, 2) if channels_last else order
    lines = value.permute(order)
    whole = value.new_empty(value.numel() + 1)
    whole[1:] = lines.reshape(-1)
    return whole[1:].view(lines.shape).permute(back)


@needs_torch
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_tensors_that_begin_at_any_element(device, channels_last):
    torch.manual_seed(0)
    x, weight, bias, dout = (
        torch.randn(shape).to(torch.float16).to(device)
        for shape in ((2, 16, 6, 5), (8, 16, 3, 3), (8,), (2, 8, 4, 3))
    )
    out = cv.forward(x, weight, bias, relu=True)
    expected = cv.backward(dout, x, weight, out, relu=True)
    x, weight, dout, moved = (at_an_element(v, channels_last) for v in (x, weight, dout, out))
    assert x.data_ptr() % 16 and dout.data_ptr() % 16
    bias = at_an_element(bias.view(8, 1, 1, 1), False).view(8)
    assert torch.equal(cv.forward(x, weight, bias, relu=True), out)
    for got, want in zip(cv.backward(dout, x, weight, moved, relu=True), expected):
        assert torch.equal(got, want)


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
def test_random_shapes(device):
    """200 of them, on the CPU small ones; dtypes, ReLU, bias and layouts take turns."""
    dtypes = [torch.float16, torch.bfloat16] + ([torch.float32] if device == "cpu" else [])
    for i, case in enumerate(random_cases(200, 2e6 if device == "cpu" else 4e9)):
        check_torch(
            case, dtypes[i % len(dtypes)], device, i % 4 < 2, i % 5 < 3, ("last", "first")[i % 2]
        )


RESNET_50 = [
    # channels, size, filters, filter, stride: every layer but the first, once
    (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1), (128, 28, 128, 3, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1), (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1),
]  # fmt: skip


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
def test_resnet_50(device):
    """On the CPU with an eighth of the channels and at most 14 lines."""
    for *layer, filter, stride in RESNET_50:
        channels, size, filters = layer
        if device == "cpu":
            channels, filters, size = channels // 8, filters // 8, min(size, 14)
        pair = (filter // 2, filter // 2)
        case = (
            1 if device == "cpu" else 8, channels, size, size, filters, filter, filter,
            (stride, stride), pair, (1, 1),
        )  # fmt: skip
        check_torch(case, torch.bfloat16, device, stride == 2, False, "last")


@needs_torch
@needs_gpu
def test_fp32_is_the_cpu_s():
    x, weight = torch.zeros(1, 8, 4, 4, device="cuda"), torch.zeros(8, 8, 3, 3, device="cuda")
    with pytest.raises(NotImplementedError, match="fp32"):
        cv.conv2d(x, weight)


def test_choice():
    """The CPU takes a choice and does as always; what there is not is refused everywhere."""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 64, 6, 6)).astype(np.float32)
    weight = random.standard_normal((64, 64, 3, 3)).astype(np.float32)
    choice = cv.Choice("im2col", (128, 64), 3)
    out = cv.forward(x, weight, padding=1, choice=choice)
    np.testing.assert_array_equal(out, cv.forward(x, weight, padding=1))
    for got, expected in zip(
        cv.backward(out, x, weight, padding=1, choice=choice),
        cv.backward(out, x, weight, padding=1),
    ):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="copies is 'engine'"):
        cv.forward(x, weight, choice=cv.Choice("engine"))
    with pytest.raises(ValueError, match="block_rows is 128 and"):
        cv.forward(x, weight, choice=cv.Choice(block=(128, 0)))


BLOCKS = (
    *((256, 128), (128, 256), (192, 128), (128, 192), (256, 64), (64, 256)),
    *((128, 128), (128, 64), (64, 128), (64, 64)),
)


@needs_torch
@needs_gpu
@pytest.mark.skipif(
    not HAS_GPU or torch.cuda.get_device_capability() != (9, 0), reason="no copy engine with im2col"
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_im2col_against_gather(dtype):
    """Random shapes, all blocks: results of the copy engine's kernels beside those of threads."""
    random, torch_dtype = np.random.default_rng(7), getattr(torch, dtype)
    torch.manual_seed(7)
    for _ in range(40):
        batch, height, width = (int(random.integers(1, most)) for most in (6, 34, 34))
        channels, filters = (
            int(random.choice([64, 32, 8])) * int(random.integers(1, 5)) for _ in range(2)
        )
        r, s = (int(random.choice([1, 2, 3, 5])) for _ in range(2))
        steps = {
            "stride": tuple(int(random.integers(1, 3)) for _ in range(2)),
            "padding": tuple(int(random.integers(0, 4)) for _ in range(2)),
            "dilation": tuple(int(random.integers(1, 3)) for _ in range(2)),
        }
        reach = (steps["dilation"][0] * (r - 1), steps["dilation"][1] * (s - 1))
        if any(
            extent + 2 * pad <= far
            for extent, pad, far in zip((height, width), steps["padding"], reach)
        ):
            continue
        x = torch.randn(batch, channels, height, width, device="cuda", dtype=torch_dtype)
        weight = torch.randn(filters, channels, r, s, device="cuda", dtype=torch_dtype)
        bias = torch.randn(filters, device="cuda", dtype=torch_dtype)
        gather = cv.Choice("gather")
        out = cv.forward(x, weight, bias, **steps, choice=gather)
        dout = torch.randn_like(out)
        expected = [out, *cv.backward(dout, x, weight, **steps, choice=gather)]
        for block in BLOCKS:
            choice = cv.Choice("im2col", block, int(random.integers(0, 6)))
            found = cv.forward(x, weight, bias, **steps, choice=choice)
            for name, got, ref in zip(
                ("out", "dx", "dweight", "dbias"),
                [found, *cv.backward(dout, x, weight, **steps, choice=choice)],
                expected,
            ):
                largest = float(ref.abs().max())
                off = float((got.float() - ref.float()).abs().max())
                assert off <= 4 * ROUNDING[dtype] * max(largest, 1e-6), (
                    name,
                    block,
                    x.shape,
                    steps,
                )


@needs_torch
@needs_gpu
def test_streams():
    """On a side stream, behind work that is still running, again and again: the same bits."""
    torch.manual_seed(3)
    x, weight = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        for shape in ((8, 64, 28, 28), (64, 64, 3, 3))
    )
    expected = cv.conv2d(x, weight, padding=1)
    grads = cv.backward(expected, x, weight, padding=1)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            torch.cuda._sleep(100_000)
            late = torch.empty_like(x).copy_(x)
            out = cv.conv2d(late, weight, padding=1)
            again = cv.backward(out, late, weight, padding=1)
            assert torch.equal(out, expected)
            assert all(torch.equal(a, b) for a, b in zip(again, grads))
