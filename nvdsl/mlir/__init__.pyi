from nvdsl.mlir import dialects as dialects
from nvdsl.mlir import extras as extras
from nvdsl.mlir import ir as ir
from nvdsl.mlir import passmanager as passmanager
from nvdsl.mlir import runtime as runtime

DEFAULT_PROVIDER: str
provider: str
