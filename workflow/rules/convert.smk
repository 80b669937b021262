# Before analyses and after captures. One needs all cores at once, which are free together only at
# the start; and the longest analyses wait for several.
_CONVERSIONS = 1000

for tool, tool_plan in dag.plan.tools.items():

    rule:
        name:
            f"convert_{tool}"
        input:
            captures=dag.captures(tool),
            imported=dag.imported_files(tool),
            batches=dag.batches.parts(tool),
        output:
            tables=expand(
                "results/runs/{{run}}/tables/{tool}/{table}.parquet",
                tool=tool,
                table=tool_plan.tables,
            ),
            record=f"results/runs/{{run}}/tables/{tool}/convert.json",
            files=directory(f"results/runs/{{run}}/convert/{tool}"),
        log:
            f"results/runs/{{run}}/logs/convert/{tool}.log",
        priority: _CONVERSIONS
        conda:
            "../../envs/analyze.yaml"
        threads: 2
        resources:
            run_settings=dag.run_settings,
        params:
            tool=tool,
            code=tool_plan.code,
            attempt=dag.conversion_attempt(tool),
            captures=workflow_dag.folders,
            batches=batches.flags,
            tables=subpath(output.record, parent=True),
            usage=f"results/runs/{{run}}/benchmarks/convert/{tool}.tsv",
        shell:
            "profkit convert {params.tool} --captures {params.captures} {params.batches}"
            " --tables {params.tables} --files {output.files} --cores {threads}"
            " --usage {params.usage} --attempt {params.attempt}"
            " --run-settings {resources.run_settings:q} > {log} 2>&1"
            " && (test -e {output.record} || exit 125)"
            " || profkit failed convert {params.tool} --status $? --log {log}"
            " --attempt {params.attempt} --out {output}"

    # Of a run with more ranks than `ranks_per_job`: `convert_<tool>` joins what these leave.
    rule:
        name:
            f"convert_{tool}_of_ranks"
        input:
            captures=dag.captures(tool),
            imported=dag.imported_files(tool),
        output:
            temp(directory(f"results/runs/{{run}}/parts/{tool}/{{batch}}")),
        log:
            f"results/runs/{{run}}/logs/convert/{tool}.{{batch}}.log",
        priority: _CONVERSIONS
        conda:
            "../../envs/analyze.yaml"
        threads: 2
        resources:
            run_settings=dag.run_settings,
        params:
            tool=tool,
            code=tool_plan.code,
            attempt=dag.conversion_attempt(tool),
            captures=workflow_dag.folders,
            ranks=dag.batches.ranks,
            usage=f"results/runs/{{run}}/benchmarks/convert/{tool}.{{batch}}.tsv",
        shell:
            "profkit convert {params.tool} --captures {params.captures}"
            " --ranks {params.ranks} --batch {output} --cores {threads}"
            " --usage {params.usage} --attempt {params.attempt}"
            " --run-settings {resources.run_settings:q} > {log} 2>&1"
            " || profkit failed convert {params.tool} --status $? --log {log}"
            " --attempt {params.attempt} --out {output}/convert.json"
