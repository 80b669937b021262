"""Write the JSON schema of Jobs, as strict as the models of Kubernetes' Python client are.

pip install --no-deps --target client kubernetes==32.0.1
cp client/kubernetes-32.0.1.dist-info/LICENSE tests/data/kubernetes
python tests/data/kubernetes/make_schema.py client > tests/data/kubernetes/job.schema.json
"""

import importlib
import inspect
import json
import re
import sys
from types import ModuleType, SimpleNamespace

PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
PLAIN |= {"datetime": "string"}
ABOUT = "Job of Kubernetes 1.32, of its Python client 32.0.1: Apache-2.0, LICENSE beside this"
definitions = {}


def models(folder):
    """Return the models alone: the rest of the client needs other packages."""
    for name in ("kubernetes", "kubernetes.client"):
        sys.modules[name] = package = ModuleType(name)
        package.__path__ = [f"{folder}/{name.replace('.', '/')}"]
    sys.modules["kubernetes.client.configuration"] = SimpleNamespace(Configuration=object)
    return importlib.import_module("kubernetes.client.models")


def schema_of(kind, known):
    """Return the schema of values of `kind`; models have theirs among the definitions."""
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind == "object":
        return {}
    if match := re.fullmatch(r"list\[(.*)\]", kind):
        return {"type": "array", "items": schema_of(match[1], known)}
    if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        return {"type": "object", "additionalProperties": schema_of(match[1], known)}
    if kind not in definitions:
        definitions[kind] = {}
        model = getattr(known, kind)
        names = sorted(model.openapi_types)
        fields = {
            model.attribute_map[name]: schema_of(model.openapi_types[name], known) for name in names
        }
        setters = {name: inspect.getsource(getattr(model, name).fset) for name in names}
        needed = [model.attribute_map[n] for n in names if "must not be `None`" in setters[n]]
        made = {"type": "object", "additionalProperties": False, "properties": fields}
        definitions[kind] = made | ({"required": needed} if needed else {})
    return {"$ref": f"#/definitions/{kind}"}


if __name__ == "__main__":
    root = schema_of("V1Job", models(sys.argv[1]))
    whole = {"$comment": ABOUT, **root, "definitions": dict(sorted(definitions.items()))}
    print(json.dumps(whole, separators=(",", ":")))
