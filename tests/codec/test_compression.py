"""The codecs by their ids: frames of real clients, round trips, caps, and what a damaged stream gives."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import time

import pytest

from milepost.codec.compression import Codec, compress, decompress
from milepost.errors import InvalidArgument, InvalidRecord, UnsupportedCompressionType

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
WORDS = b" ".join(b"%d" % (number * number % 9973) for number in range(20_000))
TEXT = b"".join(b"page_visits,%d,/index.html," % number for number in range(5000))

# The payload of one batch each, as the broker stored it: (codec, size of the records, SHA-256 of them, stream).
# The hashes were taken with gzip, lz4, zstandard and python-snappy.
STREAMS = {
    "gzip, Java client, Kafka 4.3.0": (
        Codec.GZIP,
        668,
        "eb9f2806601b39f4",
        "1f8b08000000000000ff6d90c14a42411486cf9d7b3c4a44444444440c11ad229cd17bbd86c845a4952fe1a20826142c7b8288d6d12a5af9242d5dbb"
        "081f455a7588391233aeffefccfcffd7070074d9c5d3f07e7aa3eb7a7cab87fae16e3c79d493e948a991aa77a1afc8350acf9880811266099233c603"
        "3604baf0ac089df57923ccaf60ae6a894f9bf1f32fe916392be759085cc37bba8d2ef779be61435ec222dde1116d0fb5e25f3e7097478889222e39c3"
        "3d29d90ed31ecc719fcf5b975e5268923f78ab1ca05b0391c6012c2a87e49a9910a1471e82c696f04947e80aa1229b1df8a2e344e20d3a5774f2ef3e"
        "d2d9831fd2dc23172214cac477f594092b44647300cbea1913468850e7df96a203afb5f375d548ea2f8308645d9c020000",
    ),
    "gzip, librdkafka": (
        Codec.GZIP,
        670,
        "5a9e6aa711a0d5ec",
        "1f8b08000000000000037363606060cb3632d7294bcc294d553050c84f53485428cec82f2a51282acd6362ca6332b063486002aa3183aa314453c3e0"
        "c0b08291852ddbd810aac008534113131bd0049802637405560c2d4c1c8c5059134ced0798b880da2da00a4cd115b831fc62e261c93686ca9b61f184"
        "9903c31e663ea02361869863da72865900c91716988e9cc0220473a425baac13c3051611b66c43033d6828a10725d0820dac622cd916300518e1e8c3"
        "d0c326c1966d620853811e90408fb0181a3931bc6093023ad418a60c23386d18beb0c930c2a431c2d389e1179b1c303ce14ec50850078625ec0a484e"
        "450f51a0112bd895907d8b119c5e0c2fd85558b24d610ad08313ec170b1b86051c6a709762042a0082fe914f9e020000",
    ),
    "snappy, Java client, Kafka 2.4.1": (
        Codec.SNAPPY,
        106,
        "ee59299e02411e55",
        "82534e41505059000000000100000001000000626a6824000000046b360c7461696c203002026e02301e001002066b3137091444310010007004046b"
        "3601001e007206066b320d2d1c33001a008801080109278434001400c0010a066b33310100280090020c066b34330c7461696c203602026e0236",
    ),
    "snappy, librdkafka: a raw block": (
        Codec.SNAPPY,
        672,
        "04141f7099e709c7",
        "a005b046000000066b31362c76616c75652030206f6620612073686f72742072756e02026e02303e005602066b31382c092400313a240020003e006a"
        "04066b31300d4400323e20001c4000b80106066b32116500333e2100143a00ce0108010d3f04342036830024004000fa010a066b32320d2100353e21"
        "00204800c4020c066b34310d2100363a210001c51836400084030e0619c600373a250028004000a60310066b33382c09e700383e2100103a00820412"
        "11a600393e1e00244200cc0414066b34322e093f00313e4b01240042008c0516066b31371122424901204c00980518066b333511223e4b013802026e"
        "0431324200a2051a066b3238112700333e8d00143c00f6051c01111f425201204200c6061e066b34381122425301204200f00620066b333011223e54"
        "0120004000b60722046b391121425001104c00e2072421b711223e510105cd14383c00b0082615ab425701",
    ),
    "lz4, Java client, Kafka 2.4.1": (
        Codec.LZ4,
        109,
        "3e6c51455fa4d045",
        "04224d1860408264000000f20d26000000066b33380c7461696c203002026e02301e002002066b32371400f305310012004a04066b32320100200094"
        "0106066b341b008233001a00a00108012900f20734001400fc010a066b333701002800c0020c066b31301c00603602026e023600000000",
    ),
    "lz4, recompressed by the broker: a stored block": (
        Codec.LZ4,
        14,
        "3d22272a7fd3477c",
        "04224d186040820e0000801a000000046b30027802026e023000000000",
    ),
    "lz4, librdkafka": (
        Codec.LZ4,
        669,
        "177f1ca3933babc9",
        "04224d186040823f010000f31c46000000066b32352c76616c75652030206f6620612073686f72742072756e02026e02303c001202046b3823001b31"
        "230093003e006c04066b333020001e322000547c06066b3340001c332000633a00880108013e001c341e00934000d0010a066b323421001c35210093"
        "4800fc010c066b313621001b36210000c300673640008c020e25001b37250067004000ca0210c6001c382100543a008a0312a6001c391e00924000b0"
        "0314046b322e47011c31480160004200d2031606010422000d4701944c009a0418066b323022000c4901e502026e0431324200aa041a066b346b000d"
        "5001643c00c4041c0146000d5101584200d4041e8a000d5201944200a20520066b343444000c530194004000f20522046b3121000d4f01854c00fc05"
        "24066b3122000c500101cd0065383c00dc0626ab00085601502072756e0000000000",
    ),
    "zstd, Java client, Kafka 4.3.0": (
        Codec.ZSTD,
        667,
        "2dbba5fb7bdb7939",
        "28b52ffd0058a4080012cd3033606dd201609050ac0b2121845d353448d8e156ada0fa51fd8ecd41d7cb126e641342c8def882025d601a5812434db2"
        "65932405974324720c42c9f536449f63accbf532442195e3de168150907b17b6e41013a4b01fc7feaed6040ac9a363cd321dc5bd0894ce317ca09fc7"
        "f3c36b35508fab6032720b84dc4b30e178b45eef407a1eabcc32abcaf50a64e712d4c4bd01d9f138410090e796d7ba14c79ce57a75e297f3e3deacfc"
        "2265969971364d63a3b9c8689966a16952abe06064362a52ebff8827203063901e40e225555017f48b38e822acbf84c1df425cd11584b55f89d0eed7"
        "489ce81266d452e88e83c9df5442073175268d8413e2773693204164277401591d5d2151a33b6477bf3b992f03010000",
    ),
    "zstd, librdkafka": (
        Codec.ZSTD,
        668,
        "47f8d53c41b0e2b2",
        "28b52ffd0058b50800228d3032706bd201fcaad20bbed373bf62bbf7bb8c54139340c0525121c7d26edaa1114236d9722706babfeffaffffffff24d9"
        "44ee145503c4b984a224ec6580344e9916208c4fa46b1f9f52c4bd0a6df34964909671c9b9e2de84c7e313f8daa50ab917e1e99cf262b78387f3f9f7"
        "c0dd0c1ecd6755a01b8f9c82af9740359f13f70eb0cea7d44b5552dc2bc03a1e21bd6e018ce35664006cf3084fb1772db70e9bbcf527c55e85dc8af4"
        "52bd32186781b95054b88a9bb8b8c849642c950b077ebdff210227201063b03c40c2c52aa80bd42f8a3823d7c0a9117b329e4894c485ae40d8fd5288"
        "7a1765c120463c21972261b8a28b4294fa4d6467741d116f6764264362c878c4820c1e896176eff768e89df164550f",
    ),
}


@pytest.mark.parametrize(("codec", "size", "digest", "stream"), STREAMS.values(), ids=STREAMS)
def test_stream_of_a_real_client(codec, size, digest, stream):
    records = decompress(codec, memoryview(bytes.fromhex(stream)))
    assert (len(records), hashlib.sha256(records).hexdigest()[:16]) == (size, digest)


@pytest.mark.parametrize(("codec", "size", "digest", "stream"), STREAMS.values(), ids=STREAMS)
def test_stream_of_a_real_client_cut_at_every_byte_is_invalid(codec, size, digest, stream):
    whole = bytes.fromhex(stream)
    for end in range(len(whole)):
        if codec is Codec.SNAPPY and whole[:4].hex() == "82534e41" and end == 16:
            continue  # a xerial stream has no end mark: its bare header is an empty stream
        with pytest.raises(InvalidRecord):
            decompress(codec, whole[:end])


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(200_000), bytes(range(256)) * 300], ids=["empty", "1 byte", "text", "zeros", "runs"]
)
def test_what_is_compressed_comes_back(codec, data):
    stream = compress(codec, memoryview(bytearray(data)))
    assert type(stream) is bytes
    assert decompress(codec, memoryview(stream)) == data
    assert decompress(codec, bytearray(stream), max_size=len(data)) == data


def test_names_and_ids_are_kafkas():
    assert {codec.name.lower(): codec.value for codec in Codec} == {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def test_none_copies():
    assert compress(Codec.NONE, bytearray(b"abc")) == b"abc"
    assert decompress(Codec.NONE, memoryview(b"abc")) == b"abc"
    with pytest.raises(InvalidRecord, match="3 bytes, 2 are allowed"):
        decompress(Codec.NONE, b"abc", max_size=2)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_named(codec):
    for call in (compress, decompress):
        with pytest.raises(UnsupportedCompressionType, match=f"codec {codec} is unknown"):
            call(codec, b"abc")


def test_zstd_belongs_to_magic_2_only():
    with pytest.raises(InvalidArgument, match="magic 1"):
        compress(Codec.ZSTD, b"abc", magic=1)
    with pytest.raises(InvalidRecord, match="magic 0"):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, b"abc"), magic=0)


# Levels


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, level) for level in (-1, 1, 9)] + [(Codec.LZ4, level) for level in (1, 9, 12, 17)]
    + [(Codec.ZSTD, level) for level in (-131072, -1, 0, 1, 3, 12)]
)  # fmt: skip
def test_every_level_can_be_read(codec, level):
    assert decompress(codec, compress(codec, TEXT, level)) == TEXT


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_the_level_is_passed_on(codec):
    strong = {Codec.GZIP: 9, Codec.LZ4: 12, Codec.ZSTD: 12}[codec]
    quick = {Codec.GZIP: 1, Codec.LZ4: 9, Codec.ZSTD: -50}[codec]
    assert len(compress(codec, WORDS, strong)) < len(compress(codec, WORDS, quick))


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.LZ4, 0), (Codec.LZ4, 18), (Codec.ZSTD, 23), (Codec.ZSTD, -131073)],
)
def test_level_out_of_range(codec, level):
    with pytest.raises(InvalidArgument, match=f"{codec.name.lower()} level {level}; .* to"):
        compress(codec, b"abc", level)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_codec_without_levels(codec):
    with pytest.raises(InvalidArgument, match="has no compression levels, 3 was given"):
        compress(codec, b"abc", 3)


# gzip, which has no file of its own


def test_gzip_header_says_nothing_about_time_and_machine():
    for level in (1, 6, 9):
        assert compress(Codec.GZIP, TEXT, level)[:10].hex() == "1f8b08000000000000ff"


def test_gzip_is_read_by_others():
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT


def test_gzip_members_in_a_row_are_one_stream():
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two ") + gzip.compress(TEXT)) == b"one two " + TEXT


def test_gzip_of_many_tiny_members_takes_linear_time():
    members = gzip.compress(b"") * 20_000  # 400 kB, 8 s if each one copied the rest
    started = time.thread_time()
    assert decompress(Codec.GZIP, members) == b""
    assert time.thread_time() - started < 2


@pytest.mark.parametrize("garbage", [b"\0", b"garbage", b"\x1f\x8b"])
def test_gzip_with_bytes_behind_its_end(garbage):
    with pytest.raises(InvalidRecord, match=r"gzip: the member at byte 27 is (damaged|cut)"):
        decompress(Codec.GZIP, bytes.fromhex("1f8b08000000000000ff4b4c4a4e494d4b0700a66a2a3107000000") + garbage)


def test_gzip_with_a_wrong_checksum():
    stream = bytearray(compress(Codec.GZIP, TEXT))
    stream[-8] ^= 1
    with pytest.raises(InvalidRecord, match="gzip: the member at byte 0 is damaged"):
        decompress(Codec.GZIP, stream)


# Caps


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.name.lower())
def test_one_byte_over_the_cap(codec):
    stream = compress(codec, TEXT)
    with pytest.raises(InvalidRecord, match=f"{codec.name.lower()}: the stream .* {len(TEXT) - 1} "):
        decompress(codec, stream, max_size=len(TEXT) - 1)


BOMBS = """
import struct, sys, zlib
sys.path[:] = {path!r}
from milepost.codec import lz4_frame, xerial
from milepost.codec.compression import Codec, compress, decompress
from milepost.errors import InvalidRecord

def peak_memory():
    # In KiB. The peak that getrusage() tells includes that of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

zeros = bytes(65536)
block = compress(Codec.LZ4, zeros)[7:-4]
deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
gzip = b"".join([deflate.compress(zeros) for _ in range(1024)] + [deflate.flush()])
bombs = {{
    Codec.GZIP: gzip,
    Codec.SNAPPY: xerial.HEADER + struct.pack(">i", 8) + bytes.fromhex("ffffffff0f 00 61 61"),
    Codec.LZ4: lz4_frame.HEADER + block * 1024 + lz4_frame.END_MARK,
    Codec.ZSTD: bytes.fromhex("28b52ffd 0058") + bytes.fromhex("02001000") * 511 + bytes.fromhex("03001000"),
}}
assert len(bombs[Codec.ZSTD]) == 2054
for codec in bombs:
    try:
        decompress(codec, compress(codec, zeros), max_size=65536)  # whatever the first call loads is not counted
    except InvalidRecord as error:
        raise SystemExit(f"{{codec!r}} {{error}}")
before = peak_memory()
for codec, bomb in bombs.items():
    try:
        decompress(codec, bomb, max_size=1 << 20)
    except InvalidRecord as error:
        print(codec.name, error)
print(peak_memory() - before)
assert decompress(Codec.ZSTD, bombs[Codec.ZSTD]) == bytes(64 << 20)
assert decompress(Codec.GZIP, bombs[Codec.GZIP]) == bytes(64 << 20)
assert decompress(Codec.LZ4, bombs[Codec.LZ4]) == bytes(64 << 20)
"""


def test_bombs_of_64_mib_are_refused_in_a_few_mib():
    program = BOMBS.format(path=sys.path)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stderr == ""
    *refusals, kilobytes = answer.stdout.splitlines()
    assert refusals == [
        "GZIP gzip: the stream is larger than the 1048576 bytes allowed",
        "SNAPPY snappy: a block of 8 bytes declares 4294967295 bytes, more than 22 times its size",
        "LZ4 lz4: the stream is larger than the 1048576 bytes allowed",
        "ZSTD zstd: the stream is larger than the 1048576 bytes allowed",
    ]
    assert int(kilobytes) < 12_000
