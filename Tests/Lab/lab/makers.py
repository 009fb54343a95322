"""Which meters speak a protocol of their maker's: the definition's `protocol` → their class, a live.LiveMeter."""
from .live import LiveMeter
from .omron import Monitor
from .qardio import Cuff
from .xiaomi import Scale

KINDS = {"omron": Monitor, "qardio": Cuff, "xiaomi": Scale}


def kind_of(definition):
    return KINDS.get(definition.protocol, LiveMeter)
