"""Images, sounds, tables, archives and texts, for the tool that damages files."""

import io
import struct
import tarfile
import tempfile
import warnings
import wave
import zipfile
from pathlib import Path

import numpy as np

import trainkit as tk
from tests.attacks.file_format import ALLOWED, Format
from tests.checkpoints.fuzzing import mutated
from trainkit import keras

SIZES = (0, 1, 2, 255, 256, 4000, 16000, 32767, 65535)


class Image(Format):
    """Images that Pillow reads; a few copies of their pixels may be in memory at a time."""

    allowed = 6 * ALLOWED
    kind, reader, places = "", None, ()

    def make(self, path):
        from PIL import Image as Pillow

        first = np.arange(20 * 30 * 3).astype(np.uint8).reshape(20, 30, 3)
        pictures = [Pillow.fromarray(first), Pillow.fromarray(255 - first)]
        several = {"save_all": True, "append_images": pictures[1:]} if self.has_frames() else {}
        pictures[0].save(path, self.kind, **several)

    def has_frames(self):
        return self.kind in ("GIF", "WEBP")

    def read(self, path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large ones
            type(self).reader(path.read_bytes())

    def damage(self, valid, path, random_):
        """Damage anything, or write other sizes where the format has them."""
        if not self.places or random_.random() < 0.6:
            super().damage(valid, path, random_)
            return
        made = bytearray(valid)
        for place in self.places:
            struct.pack_into("<H", made, place, random_.choice(SIZES))
        path.write_bytes(made if random_.random() < 0.5 else mutated(bytes(made), random_)[0])


class Gif(Image):
    ending, kind, places = ".gif", "GIF", (6, 8)
    reader = staticmethod(tk.image.decode_gif)


class Bmp(Image):
    ending, kind, places = ".bmp", "BMP", (18, 22)
    reader = staticmethod(tk.image.decode_bmp)


class Jpeg(Image):
    ending, kind = ".jpg", "JPEG"
    reader = staticmethod(tk.image.decode_jpeg)


class WebP(Image):
    ending, kind = ".webp", "WEBP"
    reader = staticmethod(tk.image.decode_webp)


class Picture(Image):
    """Any format, as `load_img` reads it from a path."""

    kinds = ("PNG", "GIF", "BMP", "JPEG", "TIFF", "PPM")
    ending, kind = ".png", "PNG"

    def read(self, path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keras.utils.load_img(path, target_size=(8, 8))

    def damage(self, valid, path, random_):
        from PIL import Image as Pillow

        out = io.BytesIO()
        Pillow.open(io.BytesIO(valid)).save(out, random_.choice(self.kinds))
        path.write_bytes(mutated(out.getvalue(), random_)[0])


class Wav(Format):
    ending = ".wav"

    def make(self, path):
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(bytes(range(200)))

    def read(self, path):
        tk.audio.decode_wav(path.read_bytes())

    def damage(self, valid, path, random_):
        """Mostly the header, in which all sizes stand."""
        if random_.random() < 0.3:
            super().damage(valid, path, random_)
        else:
            path.write_bytes(mutated(valid[:48], random_)[0] + valid[48:])


class Csv(Format):
    ending = ".csv"
    own = (tk.errors.OpError, ValueError)

    def make(self, path):
        path.write_text("n,w,f\n" + "".join(f'{n},"w{n}",{n / 3}\n' for n in range(20)))

    def read(self, path):
        made = tk.data.experimental.make_csv_dataset(
            str(path), 4, num_epochs=1, shuffle=False, num_rows_for_inference=5
        )
        for _ in made:
            pass


class Lines(Format):
    ending = ".txt"

    def make(self, path):
        path.write_text("one\ntwo\nthree\n")

    def read(self, path):
        for _ in tk.data.TextLineDataset(str(path)):
            pass
        tk.layers.StringLookup(vocabulary=str(path))(tk.constant(["one", "four"]))


class ZipFile(Format):
    """What `get_file` unpacks."""

    ending = ".zip"
    own = (ValueError,)

    def make(self, path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/b.txt", "text" * 200)
            archive.writestr("c.txt", bytes(range(256)))

    def read(self, path):
        with tempfile.TemporaryDirectory() as cache:
            name = f"x{self.ending}"
            keras.utils.get_file(name, origin=f"file://{path}", cache_dir=cache, extract=True)


class TarFile(ZipFile):
    ending, packing = ".tar", ""

    def make(self, path):
        with tarfile.open(path, f"w:{self.packing}") as archive:
            for name in ("a/b.txt", "c.txt"):
                info = tarfile.TarInfo(name)
                info.size = 700
                archive.addfile(info, io.BytesIO(bytes(700)))


class TarGz(TarFile):
    ending, packing = ".tar.gz", "gz"


class TarXz(TarFile):
    ending, packing = ".tar.xz", "xz"


class TokenizerText(Format):
    ending = ".json"
    own = (ValueError,)

    def make(self, path):
        made = keras.preprocessing.text.Tokenizer()
        made.fit_on_texts(["one two", "two three"])
        path.write_text(made.to_json())

    def read(self, path):
        text = path.read_bytes().decode(errors="replace")
        keras.preprocessing.text.tokenizer_from_json(text)


class Elements(Format):
    """The index of stored elements, beside data that is whole."""

    ending = ".index"

    def make(self, path):
        folder = Path(tempfile.mkdtemp(dir=path.parent))
        tk.data.Dataset.range(4).save(str(folder))
        (index,) = folder.glob("*.index")
        self.folder, self.index = folder, index
        path.write_bytes(index.read_bytes())

    def read(self, path):
        self.index.write_bytes(path.read_bytes())
        for _ in tk.data.Dataset.load(str(self.folder)):
            pass


FORMATS = {
    "gif": Gif,
    "bmp": Bmp,
    "jpeg": Jpeg,
    "webp": WebP,
    "load_img": Picture,
    "wav": Wav,
    "csv": Csv,
    "lines": Lines,
    "zip": ZipFile,
    "tar": TarFile,
    "tar.gz": TarGz,
    "tar.xz": TarXz,
    "tokenizer": TokenizerText,
    "elements": Elements,
}
