"""Tensor maps on both sides of every rule: does TensorMap.check say what the CUDA driver says?"""

from __future__ import annotations

import itertools
from typing import Any

from nvdsl.driver import device
from nvdsl.driver.cuda import CudaError
from nvdsl.hopper.tensor_maps import DATA_TYPES, INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES, TensorMap


def _candidates() -> list[tuple[TensorMap, int]]:
    """Tensor maps on both sides of every rule, with addresses."""
    found = []
    for element, swizzle, rank in itertools.product(DATA_TYPES, SWIZZLES, range(1, 6)):
        strides = tuple(64 ** (rank - 1 - i) for i in range(rank))
        for inner in (4, 8, 16, 32, 64, 128):
            box = (*[2] * (rank - 1), inner)
            found.append((TensorMap(element, (64,) * rank, strides, box, swizzle), 0))
    for l2, oob, element in itertools.product(L2_PROMOTIONS, OOB_FILLS, DATA_TYPES):
        found.append((TensorMap(element, (64, 64), (64, 1), (8, 16), "none", l2, oob), 0))
    for interleave, swizzle, rank, row in itertools.product(INTERLEAVES, SWIZZLES, (2, 3, 4), (24, 32, 64)):
        strides = (row * 8, row, 1)[-rank:] if rank < 4 else (row * 64, row * 8, row, 1)
        tensor_map = TensorMap(
            "f16", (8,) * (rank - 1) + (16,), strides, (2,) * (rank - 1) + (8,), swizzle, interleave=interleave
        )
        found += [(tensor_map, 0), (tensor_map, 16)]
    base = {"element": "f16", "shape": (64, 64), "strides": (64, 1), "box": (8, 64)}
    changes: list[dict[str, Any]] = [
        {"strides": (65, 1)}, {"strides": (72, 1)}, {"strides": (0, 1)}, {"strides": (32, 1)},
        {"strides": (2**39, 1)}, {"strides": (2**39 - 8, 1)}, {"shape": (0, 64)}, {"shape": (2**32, 64)},
        {"shape": (2**32 + 1, 64)}, {"shape": (1, 64), "strides": (3, 1)}, {"shape": (64, 1), "strides": (64, 9)},
        {"shape": (1, 3), "strides": (3, 1)}, {"box": (256, 64)}, {"box": (257, 64)}, {"box": (0, 64)},
        {"box": (8, 256)}, {"box": (8, 60)}, {"shape": (4, 4)},
    ]  # fmt: skip
    return found + [(TensorMap(**{**base, **change}), offset) for change in changes for offset in (0, 8, 16)]


def rules_agree_with_the_driver() -> str:
    """Wherever TensorMap.check finds nothing, the driver encodes; wherever it finds something, the driver
    refuses. The driver accepts some that the documentation rules out: these are only counted."""
    import torch

    memory = torch.zeros(1 << 20, device="cuda")
    cuda, accepted, refused, stricter = device.devices.cuda, 0, 0, {}
    wrong = []
    for tensor_map, offset in _candidates():
        address = memory.data_ptr() + offset
        problems = tensor_map.check(address)
        try:
            cuda.encode(tensor_map, address)
        except (CudaError, OverflowError):
            refused += 1
            if not problems:
                wrong.append(tensor_map)
        else:
            accepted += 1
            if problems:
                stricter.setdefault(problems[0].what.split(":")[-1], []).append(tensor_map)
    assert not wrong, f"legal by the rules, refused by the driver: {wrong[:5]} ({len(wrong)})"
    remark = "; ".join(f"{len(maps)} x{rule}, e.g. {maps[0]}" for rule, maps in stricter.items())
    return f"{accepted} encoded, {refused} refused" + (f"; rules stricter than the driver: {remark}" if remark else "")
