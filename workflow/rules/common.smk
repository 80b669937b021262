from snakemake.exceptions import WorkflowError

from profkit import dag as workflow_dag
from profkit.errors import ProfkitError

try:
    dag = workflow_dag.load(str(config.get("overrides") or ""))
except ProfkitError as error:
    # Snakemake shows its own errors without a traceback.
    raise WorkflowError(str(error)) from None
shell.prefix(workflow_dag.shell_prefix())


wildcard_constraints:
    run="|".join(run.name for run in dag.plan.runs),
