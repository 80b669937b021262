from profkit import dag as workflow_dag

dag = workflow_dag.load(str(config.get("overrides", "")))
shell.prefix(workflow_dag.shell_prefix())


wildcard_constraints:
    run="|".join(run.name for run in dag.plan.runs),
