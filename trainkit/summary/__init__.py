"""Summaries for TensorBoard, written without TensorFlow: curves, histograms, images and more."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.summary import experimental as experimental
from trainkit.summary.charts import custom_scalars as custom_scalars
from trainkit.summary.charts import pr_curve as pr_curve
from trainkit.summary.defaults import record_if as record_if
from trainkit.summary.defaults import should_record_summaries as should_record_summaries
from trainkit.summary.media import audio as audio
from trainkit.summary.media import image as image
from trainkit.summary.media import text as text
from trainkit.summary.meshes import mesh as mesh
from trainkit.summary.plots import histogram as histogram
from trainkit.summary.plots import scalar as scalar
from trainkit.summary.plots import write as write
from trainkit.summary.projector import embedding as embedding
from trainkit.summary.runs import graph as graph
from trainkit.summary.runs import hparams as hparams
from trainkit.summary.runs import keras_model as keras_model
from trainkit.summary.tracing import trace_export as trace_export
from trainkit.summary.tracing import trace_off as trace_off
from trainkit.summary.tracing import trace_on as trace_on
from trainkit.summary.writer import SummaryWriter as SummaryWriter
from trainkit.summary.writer import create_file_writer as create_file_writer
from trainkit.summary.writer import create_noop_writer as create_noop_writer
from trainkit.summary.writer import flush as flush

_explain_unknown_names(globals())
