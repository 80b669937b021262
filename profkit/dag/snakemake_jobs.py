"""Jobs on a cluster end with Snakemake, those as well whose state it asks for at that moment."""

from collections.abc import Callable
from typing import Any

from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor


def cancel_all(scheduler: Any) -> None:
    """Have the executor of `scheduler` cancel all of its jobs when it is interrupted.

    Its own list is empty while it asks for the states of its jobs, which is most of the time where
    they are many.
    """
    executor = scheduler._executor  # noqa: SLF001
    if not isinstance(executor, RemoteExecutor):
        return
    jobs: dict[int, Any] = {}

    def noted(report: Callable[..., None], is_submission: bool) -> Callable[..., None]:
        def note(job_info: Any, *args: Any, **options: Any) -> None:
            if is_submission:
                jobs[id(job_info)] = job_info
            else:
                jobs.pop(id(job_info), None)
            report(job_info, *args, **options)

        return note

    def cancel() -> None:
        if left := list(jobs.values()):
            executor.cancel_jobs(left)
        executor.shutdown()

    executor.report_job_submission = noted(executor.report_job_submission, True)
    executor.report_job_success = noted(executor.report_job_success, False)
    executor.report_job_error = noted(executor.report_job_error, False)
    executor.cancel = cancel
