"""What a later process finds without a trace computes the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nvdsl as nv

pytest.importorskip("torch")

PROGRAM = """
import sys
import torch
import nvdsl as nv
from nvdsl.call.jit import Jit

torch.manual_seed(0)
x, w = torch.randn(300, 512, device="cuda").bfloat16(), torch.randn(512, device="cuda").bfloat16()
long = torch.randn(4, 65536, device="cuda").half()
q = torch.randn(1, 200, 2, 64, device="cuda").bfloat16()
traced, trace = [], Jit._traced

def noted(self, *args):
    traced.append(self.__name__)
    return trace(self, *args)

Jit._traced = noted
calls = [
    lambda: nv.matmul(x, x.T), lambda: nv.matmul(x[:100], x.T, bias=w[:300], activation="gelu"), lambda: nv.softmax(x),
    lambda: nv.layer_norm(x, w, w), lambda: nv.layer_norm(long), lambda: nv.attention(q, q, q, causal=True),
]
expected = [
    x.float() @ x.float().T, torch.nn.functional.gelu(x[:100].float() @ x.float().T + w[:300].float()),
    torch.softmax(x.float(), -1), torch.nn.functional.layer_norm(x.float(), (512,), w.float(), w.float()),
    torch.nn.functional.layer_norm(long.float(), (65536,)),
    torch.nn.functional.scaled_dot_product_attention(*[q.transpose(1, 2).float()] * 3, is_causal=True).transpose(1, 2),
]
for call, want in zip(calls, expected):
    for _ in range(3):
        found = call().float()
        assert (found - want).abs().max() <= 0.02 * want.abs().max(), (found - want).abs().max()
own = nv.matmul(x, x.T, activation=lambda s: s * float(sys.argv[1]))
assert (own.float() - float(sys.argv[1]) * expected[0]).abs().max() <= 0.02 * own.float().abs().max()
print(len(traced))
"""


def test_a_later_process_traces_only_what_is_the_user_s(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    root = os.pathsep.join([str(Path(nv.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NVDSL_CACHE": "on", "NVDSL_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}
    command = [sys.executable, path]
    counts = []
    for factor in ("2.0", "2.0", "3.0"):
        run = subprocess.run([*command, factor], env=environment, capture_output=True, text=True, timeout=80)
        assert run.returncode == 0, run.stderr[-2000:]
        counts.append(int(run.stdout))
    assert counts[0] > 6 and counts[1:] == [1, 1]
