"""What is added to the bindings of another LLVM revision, tried on code as their generator writes it."""

import types

import pytest

from nvdsl.mlir import adapter, ir
from nvdsl.mlir.dialects import arith, llvm

GENERATED = '''
class ElectSyncOp(ir.OpView):
    OPERATION_NAME = "nvvm.elect.sync"
    _ODS_REGIONS = (0, True)

    def __init__(self, pred, *, membermask=None, loc=None, ip=None):
        operands = [] if membermask is None else [membermask]
        super().__init__(
            self.OPERATION_NAME, self._ODS_REGIONS, self._ODS_OPERAND_SEGMENTS, self._ODS_RESULT_SEGMENTS,
            attributes={}, results=[pred], operands=operands, successors=None, regions=None, loc=loc, ip=ip)

    @property
    def pred(self):
        return self.operation.results[0]


def elect_sync(pred, *, membermask=None, loc=None, ip=None):
    return ElectSyncOp(pred=pred, membermask=membermask, loc=loc, ip=ip).result


class VoteSyncOp(ir.OpView):
    OPERATION_NAME = "nvvm.vote.sync"
    _ODS_REGIONS = (0, True)

    def __init__(self, res, mask, pred, kind, *, loc=None, ip=None):
        super().__init__(
            self.OPERATION_NAME, self._ODS_REGIONS, self._ODS_OPERAND_SEGMENTS, self._ODS_RESULT_SEGMENTS,
            attributes={"kind": kind}, results=[res], operands=[mask, pred], successors=None, regions=None,
            loc=loc, ip=ip)

    @property
    def mask(self):
        return self.operation.operands[0]

    @property
    def res(self):
        return self.operation.results[0]


def vote_sync(res, mask, pred, kind, *, loc=None, ip=None):
    return VoteSyncOp(res=res, mask=mask, pred=pred, kind=kind, loc=loc, ip=ip).result


class BitcastOp(ir.OpView):
    OPERATION_NAME = "arith.bitcast"
    _ODS_REGIONS = (0, True)

    def __init__(self, out, in_, *, loc=None, ip=None):
        super().__init__(
            self.OPERATION_NAME, self._ODS_REGIONS, self._ODS_OPERAND_SEGMENTS, self._ODS_RESULT_SEGMENTS,
            attributes={}, results=[out], operands=[in_], successors=None, regions=None, loc=loc, ip=ip)

    @property
    def out(self):
        return self.operation.results[0]


def bitcast(out, in_, *, loc=None, ip=None):
    return BitcastOp(out=out, in_=in_, loc=loc, ip=ip).result
'''


@pytest.fixture
def dialect():
    module = types.ModuleType("other.dialects._nvvm_ops_gen")
    module.ir = ir
    exec(GENERATED, vars(module))
    adapter._adapt_dialect(module, ir)
    adapter._adapt_dialect(module, ir)  # as of a dialect that takes the ops of another into its own module
    return module


@pytest.fixture
def block():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            yield module
        assert module.operation.verify()


def test_the_only_type_that_an_op_allows_may_be_left_out(dialect, block):
    assert str(dialect.elect_sync().type) == "i1"
    assert str(dialect.elect_sync(membermask=None).type) == "i1"
    assert str(dialect.ElectSyncOp().result.type) == "i1"
    assert len(block.body.operations) == 3, "what was made to ask the verifier is in no block"


def test_a_type_that_is_given_is_taken(dialect, block):
    i1, i32 = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(32)
    x = arith.constant(i32, 1)
    assert str(dialect.elect_sync(i1).type) == "i1" and str(dialect.elect_sync(pred=i1).type) == "i1"
    assert str(dialect.elect_sync(results=[i1]).type) == "i1"
    assert str(dialect.bitcast(ir.F32Type.get(), x).type) == "f32"
    assert str(dialect.bitcast(in_=x, out=ir.F32Type.get()).type) == "f32"


@pytest.mark.parametrize(("kind", "type"), [("any", "i1"), ("all", "i1"), ("uni", "i1"), ("ballot", "i32")])
def test_a_type_may_depend_on_an_attribute(dialect, block, kind, type):
    mask = arith.constant(ir.IntegerType.get_signless(32), -1)
    true = arith.constant(ir.IntegerType.get_signless(1), 1)
    attribute = ir.Attribute.parse(f"#nvvm<vote_sync_kind {kind}>")
    assert str(dialect.vote_sync(mask, true, attribute).type) == type
    assert str(dialect.vote_sync(mask, pred=true, kind=attribute).type) == type
    assert str(dialect.VoteSyncOp(mask, true, attribute).result.type) == type


def test_what_the_definition_leaves_open_is_an_error(dialect, block):
    x = arith.constant(ir.IntegerType.get_signless(32), 1)
    with pytest.raises(TypeError, match=r"arith\.bitcast: .* type of result 'out' .*pass results=\[type\]"):
        dialect.bitcast(x)
    assert len(block.body.operations) == 1


def test_a_missing_operand_stays_an_error(dialect, block):
    mask = arith.constant(ir.IntegerType.get_signless(32), -1)
    with pytest.raises(TypeError, match="missing"):
        dialect.vote_sync(mask, mask)
    with pytest.raises(TypeError, match="unexpected keyword"):
        dialect.elect_sync(lane=0)


@pytest.mark.parametrize(
    ("given", "type"),
    [
        ({"num": 1}, "i32"),
        ({"num": 4}, "!llvm.struct<(i32, i32, i32, i32)>"),
    ],
)
def test_matrices_that_are_loaded(given, type):
    assert adapter._DEPENDENT["nvvm.ldmatrix"](adapter._Arguments(given)) == type


def test_types_that_follow_operands(block):
    f32 = arith.constant(ir.F32Type.get(), 1.0)
    shuffled = adapter._DEPENDENT["nvvm.shfl.sync"]
    assert shuffled(adapter._Arguments({"val": f32})) == "f32"
    assert shuffled(adapter._Arguments({"val": f32, "return_value_and_is_valid": True})) == "!llvm.struct<(f32, i1)>"
    arrived = adapter._DEPENDENT["nvvm.mbarrier.arrive"]
    assert arrived(adapter._Arguments({"addr": llvm.mlir_undef(llvm.PointerType.get(3))})) == "i64"
    assert arrived(adapter._Arguments({"addr": llvm.mlir_undef(llvm.PointerType.get(7))})) is None


def test_kinds_of_locations():
    class Location:
        def __init__(self, kind):
            self.kind = kind

        def is_a_file(self):
            return self.kind == "file"

        def is_a_name(self):
            return self.kind == "name"

        def is_a_callsite(self):
            return self.kind == "callsite"

        def is_a_fused(self):
            return self.kind == "fused"

    old = types.SimpleNamespace(Location=Location)
    adapter._adapt_locations(old)
    assert isinstance(Location("file"), old.FileLineColLoc) and not isinstance(Location("name"), old.FileLineColLoc)
    assert isinstance(Location("fused"), old.FusedLoc) and isinstance(Location("callsite"), old.CallSiteLoc)
    assert isinstance(Location("name"), old.NameLoc) and not isinstance("name", old.NameLoc)


def test_locations_that_are_there_stay():
    given = types.SimpleNamespace(FileLineColLoc=int, NameLoc=int, CallSiteLoc=int, FusedLoc=int)
    adapter._adapt_locations(given)
    assert given.FileLineColLoc is int


def test_enumerations_have_their_newer_names():
    old = types.SimpleNamespace(ReduxKind=int)
    adapter._adapt_dialect(old, ir)
    assert old.ReductionKind is int
    new = types.SimpleNamespace(ReduxKind=int, ReductionKind=float)
    adapter._adapt_dialect(new, ir)
    assert new.ReductionKind is float
