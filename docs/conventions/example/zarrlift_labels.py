"""HDF5's dimension labels, as converters leave them in Zarr: `DIMENSION_LABELS` names dimensions."""

from zarrlift.conventions import Change, Convention, Recognised, View
from zarrlift.errors import Problem

LABELS = "DIMENSION_LABELS"


class Labels(Convention):
    """HDF5's dimension labels become dimension names."""

    name = "labels"

    def recognise(self, view: View) -> Recognised | None:
        changes: dict[str, Change] = {}
        problems: list[Problem] = []
        for node in view.archive.nodes:
            array = view.array(node.path)
            if array is None or array.layout is None or LABELS not in array.attributes:
                continue
            labels = array.attributes[LABELS]
            if not isinstance(labels, list) or len(labels) != len(array.layout.shape):
                problems.append(
                    Problem(
                        kind="convention",
                        node=node.path,
                        message=f"{LABELS} does not fit the array",
                        found=str(labels),
                        expected=f"{len(array.layout.shape)} labels",
                    )
                )
                continue
            kept = {name: value for name, value in array.attributes.items() if name != LABELS}
            changes[node.path] = Change(attributes=kept, dimension_names=tuple(labels))
        if not changes and not problems:
            return None
        return Recognised(
            summary=f"{len(changes)} labelled arrays", changes=changes, problems=tuple(problems)
        )
