import GATTClient
import HealthReadings

/// Omron's own services: requests are written to the first channel, answers notified on as many as the model has.
package enum Omron {
    /// The service of monitors with four channels and a key.
    static let keyService = BluetoothUUID(high: 0xECBE_3980_C9A2_11E1, low: 0xB1BD_0002_A5D5_C51B)
    /// The service of monitors with one channel.
    static let bondService: BluetoothUUID = 0xFE4A

    /// Where requests are written. Four-channel monitors have three more, for messages of more than 16 octets, which no
    /// request is.
    package static let requests = BluetoothUUID(high: 0xDB5B_55E0_AEE7_11E1, low: 0x965E_0002_A5D5_C51B)
    /// Where answers are notified, in the order of their pieces.
    package static let answers = [
        BluetoothUUID(high: 0x4912_3040_AEE8_11E1, low: 0xA74D_0002_A5D5_C51B),
        BluetoothUUID(high: 0x4D0B_F320_AEE8_11E1, low: 0xA0D9_0002_A5D5_C51B),
        BluetoothUUID(high: 0x5128_CE60_AEE8_11E1, low: 0xB84B_0002_A5D5_C51B),
        BluetoothUUID(high: 0x560F_1420_AEE8_11E1, low: 0x8184_0002_A5D5_C51B),
    ]
    /// What a monitor that wants to be asked for an echo is asked to say again: no secret, and always the same, so that a
    /// recorded answer is one in a replay.
    static let token: UInt32 = 0x4852_4C59

    /// Where the key, or the echo, is written and answered.
    package static let key = BluetoothUUID(high: 0xB305_B680_AEE7_11E1, low: 0xA730_0002_A5D5_C51B)
}
