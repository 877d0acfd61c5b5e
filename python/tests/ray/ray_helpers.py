"""A cluster of two nodes on this machine. Importing it skips tests for which a package is missing."""

import os

import pytest

# `ray` alone may be this folder.
pytest.importorskip("ray.data", reason="Ray is not installed")
pytest.importorskip("ffwd_runtime", reason="the package ffwd-llm-runtime is not installed")

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")


@pytest.fixture(scope="session")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 100_000_000}
    cluster = Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False}, connect=False
    )
    try:
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
