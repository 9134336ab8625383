"""A cluster of Ray for each test that asks for one."""

from __future__ import annotations

import pytest
from support.ray_nodes import Nodes


@pytest.fixture
def nodes(request):
    """A cluster of two nodes, or of as many as the test says as its parameter."""
    ray = pytest.importorskip("ray")
    made = Nodes(getattr(request, "param", 2))
    yield made
    ray.shutdown()
    made.cluster.shutdown()
