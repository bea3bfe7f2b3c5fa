"""The framing of event records agrees with the published checksum and with other readers."""

import struct

import pytest
from tensorboardX.crc32c import _crc32c as slow_crc32c

from trainkit.records.framing import BLOCK_BYTES, crc32c, framed

LENGTHS = [0, 1, 2, 3, 4, 5, 31, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 511, 512, 513, 4000]


def test_the_check_value_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 names the polynomial, this is its check


def test_zeros_of_rfc_3720():
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, appendix B.4
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


@pytest.mark.parametrize("length", LENGTHS)
def test_agrees_with_the_loop_over_bytes(length, rng):
    data = rng.bytes(length)
    assert crc32c(data) == slow_crc32c(data)


def test_more_blocks_than_are_looked_up_at_once(monkeypatch, rng):
    monkeypatch.setattr("trainkit.records.framing.BLOCKS_AT_ONCE", 3)
    data = rng.bytes(10 * BLOCK_BYTES + 7)
    assert crc32c(data) == slow_crc32c(data)


def unmasked(masked):
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF


def test_records_of_all_lengths_together(rng):
    payloads = [rng.bytes(length) for length in LENGTHS * 2]
    data = framed(payloads)
    for payload in payloads:
        length, header_crc = struct.unpack("<QI", data[:12])
        assert unmasked(header_crc) == slow_crc32c(data[:8])
        assert data[12 : 12 + length] == payload
        (crc,) = struct.unpack("<I", data[12 + length : 16 + length])
        assert unmasked(crc) == slow_crc32c(payload)
        data = data[16 + length :]
    assert data == b""


def test_no_records():
    assert framed([]) == b""
