"""scf.for and scf.if on the host."""

from __future__ import annotations

import pytest

from nvdsl.errors import ArgumentError
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import Kernel, fake, pointer
from tests.unit.driver.host_program import build, function, launch

SUM = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r:2 = scf.for %i = %zero to %n step %s iter_args(%a = %zero, %b = %one) -> (index, index) {
    %c = arith.addi %a, %i : index
    scf.yield %b, %c : index, index
  }
  return %r#0, %r#1 : index, index"""


@pytest.fixture
def executable():
    return build(function("%n: index, %s: index", SUM, "-> (index, index)"), devices=fake()[1])


@pytest.mark.parametrize(("n", "step"), [(0, 1), (1, 1), (5, 1), (7, 3), (-2, 1)])
def test_carried_values_change_at_once(executable, n, step):
    a, b = 0, 1
    for i in range(0, n, step):
        a, b = b, a + i
    assert executable.call(n, step) == (a, b)


def test_a_loop_may_run_again(executable):
    assert executable.call(5, 1) == executable.call(5, 1)


def test_a_step_of_zero_is_an_error(executable):
    with pytest.raises(ArgumentError, match="scf.for with a step of 0") as caught:
        executable.call(5, 0)
    assert caught.value.where.line == 5


IF = """
  %r:2 = scf.if %c -> (i32, i32) {
    scf.yield %x, %y : i32, i32
  } else {
    %s = arith.addi %x, %y : i32
    scf.yield %y, %s : i32, i32
  }
  return %r#0, %r#1 : i32, i32"""


@pytest.mark.parametrize(("condition", "expected"), [(True, (3, 4)), (False, (4, 7))])
def test_if(condition, expected):
    executable = build(function("%c: i1, %x: i32, %y: i32", IF, "-> (i32, i32)"), devices=fake()[1])
    assert executable.call(condition, 3, 4) == expected


def test_buffers_that_change_places(monkeypatch):
    """Each iteration launches with the roles of two arrays swapped; both count as used by the kernel."""
    torch = libraries.install_torch(monkeypatch)
    ty = "memref<4xf32>"
    touch = launch(f"""%zero = arith.constant 0 : index
        %value = arith.constant 1.0 : f32
        memref.store %value, %x[%zero] : {ty}""")
    body = f"""%none = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      %r:2 = scf.for %i = %none to %three step %one iter_args(%x = %a, %y = %b) -> ({ty}, {ty}) {{
        {touch}
        scf.yield %y, %x : {ty}, {ty}
      }}
      return"""
    kernel = Kernel("f_kernel", (8,))
    cuda, devices = fake(kernel)
    executable = build(function(f"%a: {ty}, %b: {ty}", body), [kernel], devices=devices)
    assert executable.written == {0, 1}
    a, b = (torch.Tensor("float32", (4,), (1,), 0, address) for address in (0x100, 0x200))
    executable.call(a, b)
    assert [pointer(one.parameters[0]) for one in cuda.launches] == [0x100, 0x200, 0x100]


@pytest.mark.parametrize("condition", [True, False])
def test_a_launch_under_a_condition(condition):
    body = f"""%one = arith.constant 1 : index
      scf.if %c {{ {launch("")} }}
      return"""
    kernel = Kernel("f_kernel")
    cuda, devices = fake(kernel)
    build(function("%c: i1", body), [kernel], devices=devices).call(condition)
    assert len(cuda.launches) == condition
