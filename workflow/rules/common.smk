import gc
import sys

import snakemake.io
import snakemake.persistence
import snakemake.workflow
from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from profkit.dag import inputs as workflow_dag
from profkit.dag import (
    batches,
    completed,
    job_environment,
    snakemake_files,
    snakemake_jobs,
    snakemake_pace,
    snakemake_records,
    snakemake_shell,
)
from profkit.core import secret_store
from profkit.core.errors import ProfkitError
from profkit.core.secret_masking import Masker
from profkit.dag.failures import damages, unreported_failures
from profkit.dag.overrides import check_config
from profkit.dag.staleness import Staleness
from profkit.planning import cache

# Until jobs begin: a DAG only grows, and to look through it over and over takes a fifth of its time.
gc.disable()
snakemake_files.keep_in_results(
    snakemake.workflow, workflow.logger_manager.logfile_handlers
)
snakemake_files.keep_job_scripts(RemoteExecutor)
snakemake_records.without_pandas(snakemake.persistence.PersistenceBase)
snakemake_records.hashed_once(snakemake.io._IOFile)
try:
    check_config(config)
    is_working = workflow.is_main_process and not workflow.output_settings.dryrun
    dag = workflow_dag.load(
        config.get("overrides") or "", config.get("plan"), is_working=is_working
    )
    if is_working:
        workflow.config_settings.config_args = [f"plan={cache.keep_for_jobs(dag.plan)}"]
except (ProfkitError, OSError) as error:
    # Snakemake shows its own errors without a traceback.
    raise WorkflowError(Masker().text(str(error))) from None
# Snakemake writes its command line and a hash of the configuration into its log.
sys.argv = secret_store.hiding().document(sys.argv)
config["overrides"] = [*dag.plan.overrides]
job_shell_prefix = job_environment.shell_prefix()
# Snakemake formats it.
shell.prefix(job_shell_prefix.replace("{", "{{").replace("}", "}}"))
snakemake_shell.hand_over_jobs(
    sys.modules[shell.__module__], job_shell_prefix, job_environment.variables()
)


wildcard_constraints:
    run="|".join(run.name for run in dag.plan.runs),
    batch="[0-9]+-[0-9]+",


def shown(wildcards):
    # Without its record of how they were made, Snakemake would take stale files for fresh.
    if workflow.is_main_process:
        workflow.dag.forcefiles.update(Staleness(dag).forgotten())
    return dag.report_inputs()
