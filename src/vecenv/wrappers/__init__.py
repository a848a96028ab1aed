"""Wrappers: vector envs seen through a transform. They stack on each other, and Gymnasium's own stack on them."""

from vecenv.wrappers._actions import (
    ClipAction,
    RescaleAction,
    StickyAction,
    TransformAction,
    VectorizeTransformAction,
)
from vecenv.wrappers._arrays import (
    ArrayConversion,
    DictInfoToList,
    JaxToNumpy,
    JaxToTorch,
    NumpyToJax,
    NumpyToTorch,
)
from vecenv.wrappers._atari import AtariPreprocessing
from vecenv.wrappers._check_finite import CheckFinite
from vecenv.wrappers._episodes import RecordEpisodeStatistics, RecordResults
from vecenv.wrappers._frame_stack import DelayObservation, FrameStackObservation
from vecenv.wrappers._human import HumanRendering
from vecenv.wrappers._images import GrayscaleObservation, ResizeObservation, TransposeImage
from vecenv.wrappers._normalize_observation import NormalizeObservation
from vecenv.wrappers._record_video import RecordVideo
from vecenv.wrappers._results_file import load_results
from vecenv.wrappers._rewards import ClipReward, NormalizeReward, TransformReward, VectorizeTransformReward
from vecenv.wrappers._shapes import (
    DtypeObservation,
    ExtractObservation,
    FilterObservation,
    FlattenObservation,
    RescaleObservation,
    ReshapeObservation,
    TransformObservation,
    VectorizeTransformObservation,
)
from vecenv.wrappers._time_aware import TimeAwareObservation
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper

__all__ = [
    "ArrayConversion",
    "AtariPreprocessing",
    "CheckFinite",
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DictInfoToList",
    "DtypeObservation",
    "ExtractObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "GrayscaleObservation",
    "HumanRendering",
    "JaxToNumpy",
    "JaxToTorch",
    "NormalizeObservation",
    "NormalizeReward",
    "NumpyToJax",
    "NumpyToTorch",
    "RecordEpisodeStatistics",
    "RecordResults",
    "RecordVideo",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
    "Transform",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
    "TransposeImage",
    "VectorizeTransformAction",
    "VectorizeTransformObservation",
    "VectorizeTransformReward",
    "Wrapper",
    "load_results",
]
