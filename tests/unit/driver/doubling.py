"""Programs with one kernel that doubles six floats: d = 2 * a."""

from __future__ import annotations

from tests.unit.driver.fake_cuda import Kernel, floats, pointer
from tests.unit.driver.host_program import function, launch

ONE = "%one = arith.constant 1 : index\n"
TY = "memref<2x3xf32>"


def read_and_write(source: str = "%a", target: str = "%d", ty: str = TY) -> str:
    """A launch whose kernel takes (source, target)."""
    return launch(f"""%zero = arith.constant 0 : index
        %v = memref.load {source}[%zero, %zero] : {ty}
        memref.store %v, {target}[%zero, %zero] : {ty}""")


def double(launched, cuda):
    """target = 2 * source, of 6 floats."""
    source, target = (floats(pointer(p), 6) for p in launched.parameters)
    for i in range(6):
        target[i] = 2 * source[i]


KERNEL = Kernel("f_kernel", (8, 8))
PROGRAM = function(f"%a: {TY}, %d: {TY}", ONE + read_and_write() + "\nreturn")

# the same in LLVM's style: the function's arguments are host arrays, it copies them itself
THIN = f"""
  %one = arith.constant 1 : index
  %t0 = gpu.wait async
  %x, %t1 = gpu.alloc async [%t0] () : {TY}
  %y, %t2 = gpu.alloc async [%t1] () : {TY}
  %t3 = gpu.memcpy async [%t2] %x, %a : {TY}, {TY}
  %none = arith.constant 0.0 : f32
  %t4 = gpu.memset async [%t3] %y, %none : {TY}, f32
  %t5 = gpu.wait async [%t4]
  {read_and_write("%x", "%y")}
  %t6 = gpu.memcpy async [%t5] %d, %y : {TY}, {TY}
  gpu.wait [%t6]
  return"""


def tensor(torch, address=0x1000, **options):
    return torch.Tensor(**{"dtype": "float32", "shape": (2, 3), "strides": (3, 1), "address": address, **options})
