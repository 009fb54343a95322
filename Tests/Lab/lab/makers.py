"""Which meters speak a protocol of their maker's: the definition's `protocol` → their class, a live.LiveMeter."""
from . import microlife, o2ring, omron, oximeters, qardio, viatom, xiaomi
from .live import LiveMeter

KINDS = {"omron": omron.Monitor, "microlife": microlife.Monitor, "viatom": viatom.Monitor, "qardio": qardio.Cuff,
         "xiaomi": xiaomi.Scale, "pc60fw": oximeters.PC60FW, "jumper": oximeters.Jumper, "berry": oximeters.Berry,
         "o2ring": o2ring.Ring}


def kind_of(definition):
    return KINDS.get(definition.protocol, LiveMeter)
