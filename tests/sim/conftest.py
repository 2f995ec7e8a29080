import numpy as np
import pytest


@pytest.fixture
def warnings_off():
    """As `nvdsl.sim.schedule.run` has them, for tests of what runs there."""
    with np.errstate(all="ignore"):
        yield
