import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdsl import errors
from nvdsl.values import scope


def test_counts():
    kernel = scope.Kernel("k", block=(32, 4, 2), cluster=(2, 1, 2))
    assert kernel.threads == 256
    assert kernel.cluster_size == 4


@given(st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([1, 8, 128, 256, 512, 1024])), max_size=12))
def test_allocations_are_aligned_and_apart(requests):
    kernel = scope.Kernel("k")
    end = 0
    for size, alignment in requests:
        offset = kernel.allocate(size, alignment)
        assert offset % alignment == 0
        assert end <= offset < end + alignment, "no more padding than the alignment needs"
        end = offset + size
        assert kernel.smem_bytes == end


def test_there_is_no_kernel_outside_of_one():
    with pytest.raises(errors.TraceError) as caught:
        scope.current("nv.smem")
    assert "nv.smem was used outside of a kernel" in str(caught.value)
    assert caught.value.where.file == __file__
    assert caught.value.rule and caught.value.fix


def test_the_innermost_kernel_is_current_and_leaving_restores():
    outer, inner = scope.Kernel("outer"), scope.Kernel("inner")
    seen = []

    def body():
        scope.within(inner, lambda: seen.append(scope.current()))
        seen.append(scope.current())

    scope.within(outer, body)
    assert seen[0] is inner and seen[1] is outer
    with pytest.raises(errors.TraceError):
        scope.current()


def test_a_kernel_is_current_in_its_thread_alone():
    seen = []

    def look():
        try:
            seen.append(scope.current())
        except errors.TraceError:
            seen.append(None)

    def body():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    scope.within(scope.Kernel("k"), body)
    assert seen == [None]


def test_what_belongs_to_the_host_is_refused_in_a_kernel():
    scope.outside("a launch", "launch it in the host function")
    with pytest.raises(errors.TraceError, match="a launch inside of kernel `gemm`") as caught:
        scope.within(
            scope.Kernel("gemm"), lambda: scope.outside("a launch", "launch it in the host function")
        )
    assert caught.value.fix == "launch it in the host function"
