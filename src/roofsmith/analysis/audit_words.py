"""The words by which it is told whether a number is said of a device or of a kernel. Pure.

`audit_rule` reads them; they are all matched without regard to capitals, as whole words.
"""

from __future__ import annotations

import re
from typing import Final

from roofsmith.analysis.audit_quantities import NUMBER


def whole_words(*patterns: str) -> re.Pattern[str]:
    """Any of the patterns, as words of their own."""
    return re.compile(r"(?<![\w-])(?:" + "|".join(patterns) + r")(?!\w)", re.IGNORECASE)


NAMES = (
    r"A\d{2,3}X?", r"B\d{3}", r"H\d{2,3}", r"L40?S?", r"T4", r"V100S?", r"G[HB]\d{3}",
    r"MI\d{2,3}[AX]?", r"RTX(?:\s\w+)?", r"GeForce", r"Tesla", r"Quadro", r"Instinct", r"Radeon",
    r"EPYC", r"Xeon", r"Ryzen", r"Threadripper", r"Gaudi", r"Graviton", r"Hopper", r"Ampere",
    r"Ada", r"Blackwell", r"Volta", r"Turing", r"CDNA\s?\d?", r"RDNA\s?\d?", r"gfx\d\w+", r"sm_\d+",
    r"(?:the|this|that|our|each|every|one)\s(?:device|GPU|CPU|card|chip|board|accelerator|machine"
    r"|hardware|processor|host|server|SM|CU|multiprocessor)", r"GPUs?", r"hardware",
)  # fmt: skip
DEVICES: Final = whole_words(*(rf"{name}(?:'s|\u2019s)?" for name in NAMES))
"""Names of products and architectures, and words for them."""
STRONG: Final = whole_words(
    r"peaks?", r"ceilings?", r"roofs?", r"theoretical(?:ly)?", r"max(?:imum|imal|imally)?",
    r"limits?", r"limited", r"spec(?:s|ified|ification)?", r"data\s?sheet", r"white\s?paper",
    r"rated", r"nominal(?:ly)?", r"ridge(?:\spoint)?", r"boost", r"base\sclock", r"TDP", r"TGP",
    r"capable", r"machine\sbalance", r"speed\sof\slight", r"sparse", r"dense",
)  # fmt: skip
"""Said of what a device can do, whoever else is in the sentence."""
STORE: Final = (
    r"(?:L[0-4]i?d?|LLC|last[- ]level|infinity|texture|constant|level[- ][1-4]|[LM]ALL)"
    r"(?:[\s-](?:data|unified|instruction|scalar|vector))?(?:\scaches?)?"
    r"|caches?|shared\s(?:memory|mem)|smem|LDS|TMEM|tensor\smemory|scratchpad"
    r"|(?:register|[SV]GPR)\sfiles?|on[\s-]die\sSRAM"
    r"|HBM\w*|GDDR\w*|L?P?DDR\w*|DRAM|VRAM|MCDRAM|RAM"
    r"|(?:(?:global|device|video|main|system|host|on-board|unified)\s)?memory|memory\ssize"
)
"""Whatever holds bytes."""
WEAK: Final = whole_words(
    STORE, r"bandwidths?", r"BW", r"NVLink\w*", r"PCIe", r"tensor\scores?", r"matrix\scores?",
    r"(?:FMA|FP\d+|BF16|TF32)\s(?:rate|pipe)", r"clocks?", r"frequency", r"interconnect",
)  # fmt: skip
"""Parts of a device; also said where a kernel's use of them is meant."""
KERNEL: Final = whole_words(
    r"reach(?:e[sd]|ing)?", r"achiev\w+", r"attain\w*", r"sustain\w*", r"mov(?:e[sd]?|ing)",
    r"comput(?:e[sd]|ing)", r"gets?", r"got", r"hits", r"runs", r"ran", r"running", r"effective",
    r"observed", r"(?:the|this|our|my|its|a|final|baseline)\skernels?(?:'s|\u2019s)?", r"kernels?",
    r"candidates?", r"incumbents?", r"baseline", r"final", r"before", r"after", r"rounds?\s\d+",
    r"traffic", r"throughput", r"goals?", r"targets?", r"at\swhich", r"stream(?:s|ed|ing)",
    r"in\sthat\stime", r"takes", r"needs?", r"floor", r"drew", r"draws", r"averag\w+",
    r"expect\w+", r"predict\w+", r"rais\w+", r"improv\w+", r"ris(?:e[sn]?|ing)", r"rose",
    r"goes", r"went", r"from(?=\s*$|\s+[\d~])", r"now", r"currently", r"measured", r"should",
    r"would", r"utili[sz]\w+", r"used", r"ncu", r"profil\w+", r"climb\w*", r"increas\w+",
    r"drop\w*", r"f(?:all(?:s|ing)?|ell)",
    r"throttl\w+", r"reads?", r"writes?", r"written", r"wrote", r"delivered", r"actual(?:ly)?",
)  # fmt: skip
"""Said of a kernel, of a run, of a goal."""
HOLDS: Final = whole_words(
    r"us(?:e[sd]?|ing)", r"needs?", r"takes?", r"took", r"requires?", r"allocat\w+",
    r"occup(?:y|ies|ied|ying)", r"spill\w*", r"stag\w+", r"reads?", r"writes?", r"written",
    r"wrote", r"mov(?:e[sd]?|ing)", r"traffic", r"footprint", r"working\ssets?", r"tiles?",
    r"buffers?", r"arrays?", r"inputs?", r"outputs?", r"tensors?", r"matri(?:x|ces)", r"kernels?",
    r"candidates?", r"incumbents?", r"fetch\w*", r"loads?", r"stores?", r"stored", r"copies",
    r"cop(?:y|ied)", r"transfers?\w*", r"registers\sa\sthread", r"registers,", r"tried",
    r"free", r"saves?", r"touch\w*", r"keeps?", r"before", r"after", r"blocks?\sof", r"budget",
    r"scratch", r"remov\w+", r"avoid\w*", r"eliminat\w+", r"halv\w+",
)  # fmt: skip
"""What programs do with bytes."""
FITS: Final = whole_words(
    r"fits?", r"exceed\w*", r"than", r"beyond", r"out\sof", r"in(?:to)?", r"within", r"overflow\w*",
    r"past", r"vs\.?", r"versus", r"against", r"of\sthe", r"from\sthe", r"for",
)  # fmt: skip
"""After these the store is the device's own again: `the tile fits the L2 of 50 MB`."""

ALLOCATED: Final = whole_words(
    r"shared\s(?:memory|mem)", r"smem", r"LDS", r"TMEM", r"tensor\smemory", r"scratchpad"
)
"""Stores of which a kernel allocates as much as it wants."""
CAPACITY: Final = whole_words(
    r"peaks?",
    r"limits?",
    r"max(?:imum|imal)?",
    r"at\smost",
    r"up\sto",
    r"only",
    r"no\smore\sthan",
    r"capacity",
    r"available",
    r"opt-?in",
    r"carve-?outs?",
    r"reserved",
    r"ha[sd]",
    r"have",
    r"provides?",
    r"offers?",
    r"hardware",
    r"spec(?:s|ified)?",
    r"data\s?sheet",
    r"(?:per|an?|each|every)\s(?:SM|CU|multiprocessor|compute\sunit|core)",
)
"""That a store has so many bytes, whoever uses them."""
INTO_THE: Final = re.compile(
    r"\b(?:fits?|exceed\w*|within|in|into|past|over|than|of)\s(?:the|its|all)\s+$", re.IGNORECASE
)
"""Before the bytes: `more than the 48 KB of shared memory`."""
ALLOCATION: Final = whole_words(
    r"dynamic",
    r"static",
    r"(?:per|an?|each|every)\s(?:(?:thread\s)?block|CTA|workgroup|stage|tile"
    r"|warp|wave|thread|kernel|program|launch)",
)
"""That so many bytes of a store are allocated, not that there are so many."""

LINKS = (
    r"(?:[\s:=(,~\u2248|-]|\b(?:bytes?|opt-?in|without|reserved|reported|shared|cache|data|unified|instruction|memory|allocation\sunit|size[sd]?|capacity|is|are|was|of"
    r"|has|have|holds?|with|about|only|just|each|in\stotal|total|shared\sby\s\d+|the|an?|its|up\sto"
    r"|provides?|offers?|gives?|limit|max(?:imum)?|at\smost|per\s(?:SM|CU|XCD|GCD|block|multiprocessor|core"
    r"|device|GPU|workgroup|thread\sblock))\b)*"
)
ADJECTIVE = (
    r"(?!(?:fits?|in|into|to|from|read|written|through|with|and|or|than|exceeds?|on|at|is|are|the|by"
    r"|leaves?|past|via|moves?|goes)\b)[\w-]+"
)
STORE_BEFORE: Final = re.compile(rf"(?<!\w)(?:{STORE}){LINKS}$", re.IGNORECASE)
STORE_AFTER: Final = re.compile(
    rf"^[\s-]*(?:of\s+)?(?:{ADJECTIVE}\s+){{0,2}}?(?:{STORE}|(?:per|/)\s?(?:SM|CU|multiprocessor))(?!\w)"
    r"(?!\s(?:tiles?|buffers?|allocations?|usage|use|footprint|stages?|traffic|reads?|writes?"
    r"|access(?:es)?|loads?|stores?|round\strips?|transfers?)\b)"
    r"|^[\s-]*(?:GPU|card)s?(?!\w)",  # `an 80GB GPU`
    re.IGNORECASE,
)
HAS_BEFORE: Final = re.compile(
    rf"(?:{DEVICES.pattern})(?:\s(?:\w+\s)?(?:has|have|had|with|offers?|provides?|gives?|comes\swith"
    r"|is|can\s\w+|delivers?|supports?))?(?:\s(?:only|just|about|up\sto|a|an|its|over))*[\s:=(]*$",
    re.IGNORECASE,
)
SHARE_AFTER: Final = re.compile(
    r"[\s,=:(]*(?:or|is|at|about)?[\s,(]*\d[\d.]*\s?% of (?!which|that|it\b|them)", re.IGNORECASE
)
SHARE: Final = re.compile(
    r"\d[\d.]*\s?% of (?:(?:the|its|their|a) )?(?:[\w'\u2019]+ ){0,3}?"
    r"(?:peak|ceiling|roof|maximum|limit|bandwidth)\b",
    re.IGNORECASE,
)
POWER: Final = whole_words(
    r"power",
    r"TDP",
    r"TGP",
    r"TBP",
    r"board",
    r"cap(?:ped)?",
    r"envelope",
    r"watts?",
    STRONG.pattern,
)
DRAWN: Final = whole_words(
    r"draw(?:s|n|ing)?(?!\s(?:up\sto|at\smost))", r"drew", r"hits?", r"measured", r"consum\w+"
)
FELL_TO: Final = re.compile(
    r"(?:drop\w*|f(?:all(?:s|ing)?|ell)|sank|sinks?|settl\w+|stay(?:s|ed)?|down)\s+(?:to|at)\s*$",
    re.IGNORECASE,
)
"""What a clock did, not what it is made for."""
INTENSITY: Final = whole_words(r"intensit(?:y|ies)", KERNEL.pattern)
LATENCY: Final = whole_words(
    rf"(?:{STORE}|launch|hit|miss|load|instruction|FMA|MMA)\s(?:\w+\s)?latenc\w+"
)
BUS: Final = whole_words(r"bus(?:es)?", r"interface", r"bus\swidth", r"memory\swidth")
BALANCE: Final = whole_words(r"ridge", r"balance", r"break-?even", r"crossover")
LIMIT: Final = whole_words(
    r"limits?", r"max(?:imum)?", r"at\smost", r"up\sto", r"allow(?:s|ed)?", r"has", r"have",
    r"holds?", r"supports?", r"can", r"hardware", r"no\smore\sthan", r"capacity",
)  # fmt: skip
SETS_BEFORE: Final = whole_words(
    r"us(?:e[sd]?|ing)", r"set(?:s|ting)?", r"keep(?:s|ing)?", r"limit(?:s|ed|ing)?",
    r"cap(?:s|ped)?", r"restrict\w*", r"forc(?:e[sd]?|ing)", r"compil\w+", r"reduc\w+",
    r"cut(?:s|ting)?", r"stay(?:s|ing)?", r"need(?:s|ed)?", r"with",
)  # fmt: skip
SETS_AFTER: Final = re.compile(
    r"^\s*(?:via|by|with|through|lets?|so|to|is enough|are enough|suffices?|leaves?"
    r"|(?:\w+\s){0,2}(?:because|since))\b",
    re.IGNORECASE,
)
"""That somebody chooses the limit: `at most 64 registers per thread lets 4 blocks be resident`."""
RUNS_ON: Final = re.compile(
    r"\b(?:on|over|across|among|between)(?:\s(?:all|both|the))?$", re.IGNORECASE
)
"""So many processors as a kernel is given."""
PART_USE_BEFORE: Final = whole_words(
    r"cluster\sof", r"idle", r"busy", r"use[sd]?", r"only", r"another", r"other"
)
PART_USE_AFTER: Final = re.compile(
    r"^\s*(?:\w+\s)?(?:idle|busy|in use|used|wait|may be used|cooperate|share)\b"
)
COUNTED: Final = re.compile(
    r"(?<![\w-])(?P<noun>(?:SM|CU|core|multiprocessor|compute unit|tensor core|CUDA core)"
    # `core 3` is one of them, and `sm_90` an architecture.
    r"(?:s|s?[\s_-]count|(?=\s?[:=]))"
    r"|registers per (?:(?:SM|CU|multiprocessor)|(?:block|thread) max)|max registers per thread"
    r"|(?:number|count) of (?:SMs|CUs|cores|multiprocessors|compute units)"
    r"|(?:XCD|GCD|IOD|TPC|MME|die)s?[\s_]count|shared[\s_]memory[\s_]banks"
    r"|L2[\s_]channels[\s_]per[\s_]XCD|max[\s_]cluster[\s_]size"
    r"|max[\s_]workgroups[\s_]per[\s_]CU(?:[\s_]multi[\s_]wave)?"
    r"|[SV]GPRs[\s_](?:addressable[\s_])?per[\s_](?:wave|SIMD(?:[\s_]lane)?)"
    r"|(?:warp|register|[SV]GPR)[\s_]allocation[\s_](?:unit|granularity)"
    r"|accumulation[\s_]offset[\s_]granularity"
    r"|(?:warp|wave(?:front)?)[\s_-]?size|max(?:imum)?[\s_](?:resident\s)?(?:threads|warps|blocks"
    r"|registers|waves)(?:[\s_](?:per|a|an)[\s_]\w+)?)"
    rf"(?:\s*[:=]\s*|\s+(?:(?:is|are|of|was)\s+)?)(?P<number>{NUMBER})(?![\w.]|\s?%|\s?x\b)",
    re.IGNORECASE,
)
PRODUCT: Final = re.compile(
    r"(?:\b(?:NVIDIA|AMD|Intel|Tesla|GeForce|Instinct)\s+)?"
    r"\b(?:[ABHLTV]\d{2,3}\w*|G[HB]\d{3}|MI\d{2,3}\w*|RTX\s\w+)(?:[\s-](?:SXM\d?|PCIe|NVL|OAM|Ada))*[\s-]\d+\s?GB(?:[\s-](?:HBM\w*|PCIe|SXM\d?))*"
)
"""Names that contain a size: `NVIDIA H100 80GB HBM3`."""
STOP: Final = re.compile(r"[;()\[\]\u2014\n]|[.!?](?=\s|$)|(?<=\s)[-\u2013](?=\s)")
SIZE_STOP: Final = re.compile(STOP.pattern.replace("()", ")", 1))
PAUSE: Final = re.compile(r"[,:=](?=\s)")
COMMA: Final = re.compile(r",(?=\s)")
NEAR = 3
"""Words between which a word for kernels binds a quantity, as in `reaches about 2.1 TB/s`."""
WHO_RUNS: Final = whole_words(
    r"kernels?", r"candidates?", r"incumbents?", r"baseline", r"rounds?\s\d+", r"programs?",
    r"benchmarks?", r"reference",
)  # fmt: skip
"""Who moves bytes on a device."""
BEFORE_PLACE: Final = re.compile(
    r"(?:^|\W)(?:on|at|for|of|with|by|to|from|in|per|across|than|over)\s*$", re.IGNORECASE
)
"""That the device is only where it happens: `on the H100 reaches`."""
DEVICE_REACHES: Final = re.compile(
    r"(?:(?:an?|the|this|that|our|each|every|one)\s)?"
    rf"{DEVICES.pattern}(?:\s(?:can|could|will|itself|alone|only|easily))*"
    r"\s(?:reach|achiev|attain|sustain|deliver|hit|get|mov|stream|transfer)(?:es|e|ed|s|ing)?"
    r"(?:\s(?:only|just|about|around|nearly|up\sto|at\smost|an?|its|the))*[\s~]*$",
    re.IGNORECASE,
)
PART_OF_BEFORE: Final = re.compile(
    r"(?:\d\s?%|\bpercent|\bhalf|\bthirds?|\bquarters?|\bfraction|\bmost|\ball|\brest|\d"
    r"|\d\s?[kMGTP]?(?:B|FLOPS?|OPS?)(?:/s|ps)?)\sof\s"
    r"(?:(?:the|its|their|all|those)\s)?"
    r"(?:(?:[\w'\u2019]+\s){0,3}(?:peak|ceiling|roof|maximum|limit|bandwidth)\sof\s)?$",
    re.IGNORECASE,
)
"""Before a number that something else is a share of."""
DIVISOR_BEFORE: Final = re.compile(
    r"\d\s?(?:[kMGTP]i?B|[kMGTP]?(?:bytes?|FLOPs?|OPs?))\s?[/\u00f7]\s?$", re.IGNORECASE
)
"""Before a rate that work is divided by, as the arithmetic of a floor does."""
REACHED: Final = whole_words(
    r"goals?", r"targets?", r"achiev\w+", r"reach\w*", r"measured", r"observed", r"effective",
    r"expect\w+", r"predict\w+", r"actual(?:ly)?", r"attain\w*", r"sustain\w*",
)  # fmt: skip
"""Said of a rate that a kernel has, or is to have."""
GIVEN_BEFORE: Final = re.compile(
    r"(?:^|\W)(?:with|given)(?:\s(?:only|just|all|the|its|about|full))*\s*$", re.IGNORECASE
)
GIVEN_AFTER: Final = re.compile(
    r"\s*,?(?:\s(?:of|bandwidth))*\s(?:\w+\s){1,3}(?:would|could)\s(?:need|take|have|be|finish)\b",
    re.IGNORECASE,
)
"""`With 3.35 TB/s the kernel would need 10 us`."""
PLACED: Final = whole_words(
    r"launch\w*", r"grids?", r"residen\w+", r"schedul\w*", r"occupancy", r"place[sd]?", r"fits?"
)
"""What is done with blocks and threads."""
PER_MULTIPROCESSOR: Final = re.compile(
    r"(?P<noun>threads|warps|wave(?:front)?s|blocks|CTAs|workgroups|registers|regs)"
    r"(?:\s?/\s?|\s(?:per|an?|each)\s)(?:SMs?|CUs?|multiprocessor|compute\sunit)$",
    re.IGNORECASE,
)
LEAST_THERE_ARE: Final = {
    "threads": 1024, "warps": 32, "waves": 32, "wavefronts": 32, "blocks": 16, "ctas": 16,
    "workgroups": 16, "registers": 65536, "regs": 65536,
}  # fmt: skip
"""On the smallest multiprocessor of `multiprocessors.yaml`."""
