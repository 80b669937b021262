for tool, tool_plan in dag.plan.tools.items():

    rule:
        name:
            f"convert_{tool}"
        input:
            captures=dag.captures(tool),
            imported=dag.imported_files(tool),
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
            tables=subpath(output.record, parent=True),
            usage=f"results/runs/{{run}}/benchmarks/convert/{tool}.tsv",
        shell:
            "profkit convert {params.tool} --captures {params.captures}"
            " --tables {params.tables} --files {output.files} --cores {threads}"
            " --usage {params.usage} --attempt {params.attempt}"
            " --run-settings {resources.run_settings:q} > {log} 2>&1"
            " && (test -e {output.record} || exit 125)"
            " || profkit failed convert {params.tool} --status $? --log {log}"
            " --attempt {params.attempt} --out {output}"
