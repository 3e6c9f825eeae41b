"""The same jobs on a Dask cluster: bytes out, bytes back. Floor: front.

A worker that dies takes its job with it; the scheduler gives it to others and, after a few, says
which job kills workers. That one is put aside.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.classroom import grade_job

INSTALL = "--scheduler needs Dask: pip install 'flashlab-course[dask]'"
CONNECT_SECONDS = 30


def mark(address: str, jobs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Results as they come from the scheduler at ``address``, such as ``tcp://10.0.0.1:8786``.

    Raises:
        ValueError: Dask is not installed, or nobody answers at the address.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError:
        raise ValueError(INSTALL) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except OSError as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        data = [json.dumps(job).encode() for job in jobs]
        keys = [f"flashlab-{job['key']}" for job in jobs]
        futures = client.map(grade_job.run_bytes, data, key=keys)
        payloads = {future.key: job for future, job in zip(futures, jobs, strict=True)}
        for future in as_completed(futures):
            error = future.exception()
            if error is None:
                yield json.loads(future.result())
                continue
            why = "workers were lost on it" if isinstance(error, KilledWorker) else str(error)
            yield grade_job.lost(payloads[future.key], why)
