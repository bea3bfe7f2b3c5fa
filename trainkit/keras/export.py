"""`keras.export`: models as functions in a folder."""

from trainkit.models.exporting import ExportArchive as ExportArchive
