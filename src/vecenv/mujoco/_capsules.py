"""Contacts of a capsule and a plane for `mujoco_warp`, as C MuJoCo has them. Imported by `_warp.py` alone.

The first tangent of the contact is the capsule's axis. `mujoco_warp` 4.0 takes another one if the capsule stands within
30 degrees of the plane's normal; C MuJoCo does not. Then the pyramid of friction is turned, and velocities of an ant
that puts its foot down are 0.8 apart after one step.
"""

# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# Functions of Warp are compiled, and not what their Python types say.
from __future__ import annotations

import inspect
from typing import Any

import warp as wp  # pyright: ignore[reportMissingImports]  # optional
from mujoco_warp._src import collision_primitive, collision_primitive_core  # pyright: ignore[reportMissingImports]

core: Any = collision_primitive_core
mat23f: Any = core.mat23f
plane_sphere: Any = core.plane_sphere


@wp.func
def plane_capsule(
    plane_normal: wp.vec3,
    plane_pos: wp.vec3,
    capsule_pos: wp.vec3,
    capsule_axis: wp.vec3,
    capsule_radius: float,
    capsule_half_length: float,
):
    """Distances, positions and the frame of both contacts, as the function of this name in `mujoco_warp`."""
    n = plane_normal
    across = capsule_axis - n * wp.dot(n, capsule_axis)
    b = wp.normalize(across)
    if wp.length(across) < 1.0e-6:
        if n[1] > -0.5 and n[1] < 0.5:
            b = wp.vec3(0.0, 1.0, 0.0)
        else:
            b = wp.vec3(0.0, 0.0, 1.0)
    c = wp.cross(n, b)
    frame = wp.mat33(n[0], n[1], n[2], b[0], b[1], b[2], c[0], c[1], c[2])
    segment = capsule_axis * capsule_half_length
    dist1, pos1 = plane_sphere(n, plane_pos, capsule_pos + segment, capsule_radius)
    dist2, pos2 = plane_sphere(n, plane_pos, capsule_pos - segment, capsule_radius)
    dist = wp.vec2(dist1, dist2)
    pos = mat23f(pos1[0], pos1[1], pos1[2], pos2[0], pos2[1], pos2[2])
    return dist, pos, frame


def mend() -> None:
    """Let the kernels of this process use it, if `mujoco_warp` still does otherwise."""
    if "b_norm < 0.5" in inspect.getsource(core.plane_capsule.func):
        collision_primitive.plane_capsule = plane_capsule
