for tool, tool_plan in dag.plan.tools.items():
    if tool_plan.timeline_code:

        rule:
            name:
                f"timeline_{tool}"
            input:
                tables=dag.timeline_tables(tool),
                capture=dag.captures(tool)[0],
            output:
                trace=f"results/runs/{{run}}/timeline/{tool}.trace.json.gz",
                record=f"results/runs/{{run}}/timeline/{tool}.json",
            log:
                f"results/runs/{{run}}/logs/timeline/{tool}.log",
            localrule: True
            conda:
                "../../envs/analyze.yaml"
            params:
                tool=tool,
                code=tool_plan.timeline_code,
                usage=f"results/runs/{{run}}/benchmarks/timeline/{tool}.tsv",
                attempt=dag.timeline_attempt(tool),
            shell:
                "profkit timeline {wildcards.run} --tool {params.tool}"
                " --attempt {params.attempt} --out {output.trace} --record {output.record}"
                " --usage {params.usage} > {log} 2>&1"
                " && (test -e {output.record} || exit 125)"
                " || profkit failed timeline {params.tool} --status $? --log {log}"
                " --attempt {params.attempt} --out {output}"
