"""Reads CloudFormation templates by the resources' purpose instead of their generated names."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

type Resource = Mapping[str, Any]


@dataclass(frozen=True)
class Assembly:
    """The templates of one deployment by the last word of the stack's name."""

    stacks: Mapping[str, Mapping[str, Any]]
    report: Path

    def __getitem__(self, name: str) -> "Stack":
        return Stack(self.stacks[name])

    @cached_property
    def whole(self) -> "Stack":
        """All stacks as one template, with imports replaced by the exported values."""
        exported = {
            output["Export"]["Name"]: output["Value"]
            for template in self.stacks.values()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }
        resources: dict[str, Any] = {}
        for template in self.stacks.values():
            shared = resources.keys() & template["Resources"].keys()
            assert shared <= {"CDKMetadata"}, f"two stacks name the same: {shared}"
            resources |= _resolved(template["Resources"], exported)
        return Stack({"Resources": resources})


def _resolved(part: Any, exported: Mapping[str, Any]) -> Any:
    match part:
        case {"Fn::ImportValue": str(name)}:
            return exported[name]
        case dict():
            return {key: _resolved(value, exported) for key, value in part.items()}
        case list():
            return [_resolved(value, exported) for value in part]
        case _:
            return part


@dataclass(frozen=True)
class Stack:
    """A synthesized template."""

    template: Mapping[str, Any]

    def all(self, kind: str) -> dict[str, Resource]:
        """Properties of every resource of a CloudFormation type, by logical id."""
        resources = self.template["Resources"].items()
        return {name: r.get("Properties", {}) for name, r in resources if r["Type"] == kind}

    def one(self, kind: str) -> Resource:
        """Properties of the only resource of its type."""
        (found,) = self.all(kind).values()
        return found

    def function_id(self, name: str) -> str:
        """Logical id of the function whose folder is `functions/<name>`."""
        functions = self.all("AWS::Lambda::Function").items()
        (found,) = (id for id, f in functions if f["Handler"] == f"{name}.handler.handler")
        return found

    def function(self, name: str) -> Resource:
        """Properties of that function."""
        return self.all("AWS::Lambda::Function")[self.function_id(name)]

    def bucket_given(self, name: str, variable: str) -> str:
        """Logical id of the bucket in this variable of the function."""
        found: str = self.function(name)["Environment"]["Variables"][variable]["Ref"]
        return found

    def actions(self, name: str) -> set[str]:
        """Every action that the template's policies permit the function's role."""
        return {action for statement in self.statements(name) for action in _list(statement["Action"])}

    def statements(self, name: str) -> list[Resource]:
        """The statements of the function's role."""
        (role, _) = self.function(name)["Role"]["Fn::GetAtt"]
        return [
            statement
            for policy in self.all("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]

    def queue_of_function(self, name: str) -> Resource:
        """Properties of the queue that the function consumes."""
        return self.all("AWS::SQS::Queue")[self.event_source(name)["EventSourceArn"]["Fn::GetAtt"][0]]

    def event_source(self, name: str) -> Resource:
        """The mapping between that queue and the function."""
        mappings = self.all("AWS::Lambda::EventSourceMapping").values()
        (found,) = (m for m in mappings if self.calls(name, m["FunctionName"]))
        return found

    def calls(self, name: str, target: Any) -> bool:
        """True if `target` is the function or its alias."""
        aliases = self.all("AWS::Lambda::Alias").items()
        ids = {self.function_id(name)}
        ids |= {id for id, alias in aliases if alias["FunctionName"] == {"Ref": self.function_id(name)}}
        return any(f'"{id}"' in json.dumps(target) for id in ids)

    def rules_that_fire(self, name: str) -> list[Resource]:
        """The EventBridge rules with the function as a target."""
        rules = self.all("AWS::Events::Rule").values()
        return [rule for rule in rules if any(self.calls(name, target["Arn"]) for target in rule["Targets"])]

    def tls_only(self, policy_kind: str, target_key: str, target_id: str) -> bool:
        """True if the resource policy denies access without TLS."""
        for policy in self.all(policy_kind).values():
            if {"Ref": target_id} not in _list(policy[target_key]):
                continue
            for statement in policy["PolicyDocument"]["Statement"]:
                insecure = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")
                if statement["Effect"] == "Deny" and insecure == "false":
                    return True
        return False


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
