"""What an elementwise operator can be given: every kind of shape, strides and value."""

import torch

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SPECIAL = (
    float("nan"),
    float("inf"),
    -float("inf"),
    0.0,
    -0.0,
    1e-45,
    -1e-40,
    88.8,
    -88.8,
    104.0,
    -104.0,
    709.9,
    -745.2,
    3e38,
    -3e38,
)
DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
if len(DEVICES) == 1:
    print("skipped on CUDA: torch finds no CUDA device on this machine")


def layouts(dtype, device):
    """(name, tensor) of every kind of shape and strides that TensorIterator tells apart."""

    def make(*shape):
        return (torch.randn(shape, dtype=torch.float64) * 5).to(dtype).to(device)

    yield "0-d", make()
    yield "empty", make(0)
    yield "empty 2-d", make(3, 0, 2)
    yield "empty transposed", make(3, 0, 2).transpose(0, 2)
    for n in (1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 1001):
        yield f"{n} elements", make(n)
    yield "threads", make(3, 70001)
    yield "transposed", make(5, 37).t()
    yield "permuted", make(3, 5, 7, 2).permute(2, 0, 3, 1)
    yield "channels_last", make(2, 3, 5, 7).to(memory_format=torch.channels_last)
    yield "channels_last_3d", make(2, 3, 5, 3, 2).to(memory_format=torch.channels_last_3d)
    yield "channels_last, 1 channel", make(2, 1, 5, 7).to(memory_format=torch.channels_last)
    yield "every second", make(4, 34)[:, ::2]
    yield "inner slice", make(6, 40)[:, 3:36]
    yield "sliced channels_last", make(2, 8, 5, 7).to(memory_format=torch.channels_last)[:, 2:5]
    yield "expanded", make(5, 1).expand(5, 33)
    yield "expanded outer", make(33).expand(4, 33)
    yield "expanded 0-d", make().expand(3, 4)
    yield "expanded and permuted", make(3, 1, 5).expand(3, 4, 5).permute(2, 1, 0)
    yield "stride of a size-1 dimension", make(21).as_strided((1, 3), (7, 1))
    yield "transposed size-1 dimension", make(4, 1, 3).transpose(0, 1)
    yield "overlapping", make(12).as_strided((5, 4), (2, 1))
    yield "offset", make(50)[3:36]
    yield "flipped view", make(9, 4).t()[1:3, ::3]


def one_shape(dtype, device):
    """Tensors of shape (2, 3, 5, 4), of which any two differ in strides."""

    def make(*shape):
        return torch.randn(shape, dtype=torch.float64).to(dtype).to(device)

    return [
        make(2, 3, 5, 4),
        make(2, 3, 5, 4).to(memory_format=torch.channels_last),
        make(2, 1, 5, 4).expand(2, 3, 5, 4),
        make(4, 5, 3, 2).permute(3, 2, 1, 0),
        make().expand(2, 3, 5, 4),
        make(2, 3, 10, 4)[:, :, ::2],
        make(2, 6, 5, 4)[:, ::2].to(memory_format=torch.channels_last),
    ]


def as_meta(x):
    """x without its data, strides kept (Tensor.to changes those of an expanded tensor)."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
