"""The part of XLA's protobuf schema that is read here: field names, numbers and types, nothing else.

The numbers are those of xla/service/hlo.proto and xla/xla_data.proto; protobuf skips every field that is not
listed, so a newer module with more fields reads the same.
"""

from __future__ import annotations

import functools
from typing import Any

#: message -> field -> (number, type). "*" repeats; a capitalised type is another message of this table.
#: XLA's enums are read as int32, its map fields as repeated (key, value) entries: the wire form is the same.
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Tile": {"dimensions": (1, "*int64")},
    "Layout": {
        "minor_to_major": (1, "*int64"),
        "tiles": (6, "*Tile"),
        "element_size_in_bits": (7, "int64"),
        "memory_space": (8, "int64"),
    },
    "Shape": {
        "element_type": (2, "int32"),
        "dimensions": (3, "*int64"),
        "tuple_shapes": (4, "*Shape"),
        "layout": (5, "Layout"),
    },
    "WindowDimension": {
        "size": (1, "int64"),
        "stride": (2, "int64"),
        "padding_low": (3, "int64"),
        "padding_high": (4, "int64"),
        "window_dilation": (5, "int64"),
        "base_dilation": (6, "int64"),
        "window_reversal": (7, "bool"),
    },
    "Window": {"dimensions": (1, "*WindowDimension")},
    "ConvolutionDimensions": {
        "kernel_input_feature_dimension": (3, "int64"),
        "kernel_output_feature_dimension": (4, "int64"),
        "kernel_spatial_dimensions": (6, "*int64"),
        "input_batch_dimension": (7, "int64"),
        "input_feature_dimension": (8, "int64"),
        "output_batch_dimension": (9, "int64"),
        "output_feature_dimension": (10, "int64"),
        "input_spatial_dimensions": (11, "*int64"),
        "output_spatial_dimensions": (12, "*int64"),
    },
    "DotDimensions": {
        "lhs_contracting_dimensions": (1, "*int64"),
        "rhs_contracting_dimensions": (2, "*int64"),
        "lhs_batch_dimensions": (3, "*int64"),
        "rhs_batch_dimensions": (4, "*int64"),
    },
    "RaggedDotDimensions": {
        "dot_dimension_numbers": (1, "DotDimensions"),
        "lhs_ragged_dimensions": (2, "*int64"),
        "rhs_group_dimensions": (3, "*int64"),
    },
    "PrecisionConfig": {"operand_precision": (1, "*int32"), "algorithm": (2, "int32")},
    "Literal": {
        "shape": (1, "Shape"),
        "preds": (2, "*bool"),
        "u8s": (3, "bytes"),
        "s32s": (4, "*int32"),
        "s64s": (5, "*int64"),
        "u32s": (6, "*uint32"),
        "u64s": (7, "*uint64"),
        "f32s": (8, "*float"),
        "f64s": (9, "*double"),
        "f16s": (11, "bytes"),
        "bf16s": (13, "bytes"),
        "s8s": (15, "bytes"),
        "u16s": (16, "bytes"),
        "s16s": (17, "bytes"),
    },
    "OpMetadata": {
        "op_type": (1, "string"),
        "op_name": (2, "string"),
        "source_file": (3, "string"),
        "source_line": (4, "int32"),
        "stack_frame_id": (15, "int32"),
    },
    "ReplicaGroup": {"replica_ids": (1, "*int64")},
    "IotaReplicaGroups": {
        "num_replica_groups": (1, "int64"),
        "num_devices_per_group": (2, "int64"),
        "iota_reshape_dims": (3, "*int64"),
        "iota_transpose_perm": (4, "*int32"),
    },
    "MeshAxis": {"name": (1, "string"), "size": (2, "int64")},
    "IotaDevices": {"reshape_dims": (1, "*int64"), "transpose_perm": (2, "*int32")},
    "Mesh": {"axes": (1, "*MeshAxis"), "device_ids": (2, "*int64"), "iota_device_ids": (3, "IotaDevices")},
    "SubAxis": {"pre_size": (1, "int64"), "size": (2, "int64")},
    "AxisRef": {"mesh_axis_index": (1, "int64"), "sub_axis_info": (2, "SubAxis")},
    "MeshReplicaGroups": {"mesh": (1, "Mesh"), "axes": (2, "*AxisRef")},
    "CollectiveDeviceList": {
        "replica_groups": (1, "*ReplicaGroup"),
        "iota_replica_group_list": (2, "IotaReplicaGroups"),
    },
    "SourceTarget": {"source": (1, "int64"), "target": (2, "int64")},
    "Instruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "shape": (3, "Shape"),
        "metadata": (7, "OpMetadata"),
        "literal": (8, "Literal"),
        "parameter_number": (9, "int64"),
        "fusion_kind": (11, "string"),
        "tuple_index": (13, "int64"),
        "dimensions": (14, "*int64"),
        "window": (15, "Window"),
        "convolution_dimension_numbers": (16, "ConvolutionDimensions"),
        "dynamic_slice_sizes": (20, "*int64"),
        "custom_call_target": (28, "string"),
        "dot_dimension_numbers": (30, "DotDimensions"),
        "fft_type": (31, "int32"),
        "fft_length": (32, "*int64"),
        "gather_slice_sizes": (34, "*int64"),
        "id": (35, "int64"),
        "operand_ids": (36, "*int64"),
        "called_computation_ids": (38, "*int64"),
        "backend_config": (43, "bytes"),
        "replica_groups": (49, "*ReplicaGroup"),
        "feature_group_count": (50, "int64"),
        "precision_config": (51, "PrecisionConfig"),
        "source_target_pairs": (52, "*SourceTarget"),
        "batch_group_count": (58, "int64"),
        "comparison_direction": (63, "string"),
        "collective_device_list": (87, "CollectiveDeviceList"),
        "iota_replica_groups": (92, "IotaReplicaGroups"),
        "mesh_replica_groups": (93, "MeshReplicaGroups"),
        "ragged_dot_dimension_numbers": (90, "RaggedDotDimensions"),
    },
    "Computation": {
        "name": (1, "string"),
        "instructions": (2, "*Instruction"),
        "id": (5, "int64"),
        "root_id": (6, "int64"),
        "is_fusion_computation": (7, "bool"),
        "execution_thread": (8, "string"),
    },
    "AliasEntry": {
        "output_shape_index": (1, "*int64"),
        "parameter_number": (2, "int64"),
        "parameter_shape_index": (3, "*int64"),
        "kind": (4, "int32"),
    },
    "InputOutputAlias": {"entries": (1, "*AliasEntry")},
    "FileLocation": {
        "file_name_id": (1, "int32"),
        "function_name_id": (2, "int32"),
        "line": (3, "int32"),
    },
    "StackFrame": {"file_location_id": (1, "int32"), "parent_frame_id": (2, "int32")},
    "StackFrameIndex": {
        "file_names": (1, "*string"),
        "function_names": (2, "*string"),
        "file_locations": (3, "*FileLocation"),
        "stack_frames": (4, "*StackFrame"),
    },
    "Module": {
        "name": (1, "string"),
        "computations": (3, "*Computation"),
        "entry_computation_id": (6, "int64"),
        "input_output_alias": (8, "InputOutputAlias"),
        "stack_frame_index": (17, "StackFrameIndex"),
    },
    "HloProto": {"hlo_module": (1, "Module")},
}

#: What the structure of a computation leaves out: what it is called, where it comes from, and the numbers of the
#: computations that it calls (their structures count).
_UNSTRUCTURAL = frozenset({"name", "metadata", "called_computation_ids"})


def _structural(field: tuple[int, str], *, local: bool) -> tuple[int, str]:
    """A field as the structure reads it: messages stay unparsed bytes, ids lose the number of their computation."""
    number, kind = field
    repeated = "*" if kind.startswith("*") else ""
    if kind.removeprefix("*") in MESSAGES:
        return number, repeated + "bytes"
    # XLA's ids hold the computation's id in their upper half: the lower half, read alone, counts from the first
    # instruction, so that two computations that do the same have the same bytes.
    return number, repeated + "int32" if local else kind


MESSAGES["StructuralInstruction"] = {
    name: _structural(field, local=name in ("id", "operand_ids"))
    for name, field in MESSAGES["Instruction"].items()
    if name not in _UNSTRUCTURAL
}
MESSAGES["StructuralComputation"] = {"instructions": (2, "*StructuralInstruction"), "root_id": (6, "int32")}
MESSAGES["StructuralModule"] = {"computations": (3, "*StructuralComputation")}

_SCALARS = {
    "double": 1,
    "float": 2,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "int32": 5,
    "int64": 3,
    "uint32": 13,
    "uint64": 4,
}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3
_PACKAGE = "jaxscale_magic.xla"


@functools.cache
def message(name: str) -> type[Any]:
    """The protobuf class of one message of `MESSAGES`."""
    return _classes()[f"{_PACKAGE}.{name}"]


@functools.cache
def _classes() -> dict[str, type[Any]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="jaxscale_magic/xla.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in MESSAGES.items():
        described = file.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            field = described.field.add(name=field_name, number=number)
            field.label = _REPEATED if kind.startswith("*") else _OPTIONAL  # type: ignore[assignment]
            kind = kind.removeprefix("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]  # type: ignore[assignment]
            else:
                field.type = _MESSAGE  # type: ignore[assignment]
                field.type_name = f".{_PACKAGE}.{kind}"
    # A pool of our own: another library's copy of XLA's schema in the process does no harm.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        f"{_PACKAGE}.{name}": message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in MESSAGES
    }
