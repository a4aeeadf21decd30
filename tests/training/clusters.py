# SPDX-License-Identifier: Apache-2.0
"""Descriptions of clusters, and work in two processes of one."""

import concurrent.futures
import contextlib
import json
import socket


def cluster(worker, kind="worker", index=0, **jobs):
    """A TF_CONFIG."""
    return json.dumps(
        {"cluster": {"worker": worker, **jobs}, "task": {"type": kind, "index": index}}
    )


def free_addresses(count):
    """Addresses of this machine at which nothing listens."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [f"localhost:{one.getsockname()[1]}" for one in sockets]


def in_two_workers(work):
    """Results of work(index, environment), called at once for both workers of a cluster."""
    workers = free_addresses(2)

    def of_worker(index):
        return work(index, {"TF_CONFIG": cluster(workers, index=index)})

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(of_worker, range(2)))
