"""Which class, a live.LiveMeter, a definition is of: by the `protocol` of its maker's, then by its standard service."""
from . import microlife, o2ring, omron, oximeters, qardio, sensors, viatom, xiaomi
from .live import LiveMeter

KINDS = {"omron": omron.Monitor, "microlife": microlife.Monitor, "viatom": viatom.Monitor, "qardio": qardio.Cuff,
         "xiaomi": xiaomi.Scale, "pc60fw": oximeters.PC60FW, "jumper": oximeters.Jumper, "berry": oximeters.Berry,
         "o2ring": o2ring.Ring}


def kind_of(definition):
    return KINDS.get(definition.protocol) or sensors.KINDS.get(definition.service, LiveMeter)
