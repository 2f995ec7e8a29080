"""Running compiled kernels through cuda-python: arguments, tensor maps, launches, copies.

    executable.build host function + kernel binaries -> Executable, which is called with arrays
    arrays.describe what an array is: an ArraySpec (dtype, shape, strides, place) and its address
    stream.resolve  the stream of a call
    device.probe    whether kernels can run here

CUDA is loaded by the first call that needs a GPU, never by an import.
"""
