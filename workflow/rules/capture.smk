# The priority of a rule makes the order of captures; see profkit/dag/capture_rules.py.
for capture in dag.capture_rules:
    tool, repeat = capture.tool, capture.repeat

    rule:
        name:
            capture.name
        input:
            # Ancient: that it was made again, by other code, is no reason to capture again.
            reads=ancient(dag.reads(tool)),
        # Updated: what is there is good until the program has been recorded anew.
        output:
            update(f"results/runs/{{run}}/capture/{tool}/rep{repeat}/capture.json"),
        log:
            f"results/runs/{{run}}/logs/capture/{tool}.rep{repeat}.log",
        wildcard_constraints:
            run=capture.runs,
        priority: capture.priority
        conda:
            "../../envs/capture.yaml"
        threads: dag.capture_threads(tool, workflow.resource_settings.cores)
        resources:
            run_settings=dag.run_settings,
            nodes=dag.capture_resource(tool, "nodes"),
            tasks=dag.capture_resource(tool, "tasks"),
            mpi=dag.capture_resource(tool, "mpi"),
            cpus_per_task=dag.capture_resource(tool, "cpus_per_task"),
            gres=dag.capture_resource(tool, "gres"),
            mem_mb=dag.capture_resource(tool, "mem_mb"),
            runtime=dag.capture_resource(tool, "runtime"),
            slurm_extra=dag.capture_resource(tool, "slurm_extra"),
        params:
            tool=tool,
            repeat=repeat,
            settings=dag.tool_settings(tool),
            workload=dag.workload,
            attempt=dag.attempt(tool, repeat),
            reads=workflow_dag.read_flags,
            out=subpath(output[0], parent=True),
        # A capture that leaves no record gets one, so that there is a report all the same.
        shell:
            "captured() {{ profkit capture {params.tool} --out {params.out} --repeat {params.repeat}"
            " --attempt {params.attempt} --run-settings {resources.run_settings:q} {params.reads:q}"
            ' --settings {params.settings:q} --workload {params.workload:q} "$@"; }};'
            " captured > {log} 2>&1 || captured --lost $? < {log} >> {log} 2>&1"


if dag.captured_tools:

    rule manifest:
        input:
            captures=dag.all_captures,
        output:
            manifest="results/runs/{run}/manifest.json",
            config="results/runs/{run}/config.yaml",
        log:
            "results/runs/{run}/logs/manifest.log",
        localrule: True
        conda:
            "../../envs/capture.yaml"
        params:
            about=dag.about,
            attempt=dag.manifest_attempt,
        shell:
            "profkit manifest --about {params.about:q} --attempt {params.attempt}"
            " --captures {input.captures} --out {output.manifest} --config {output.config} > {log} 2>&1"
