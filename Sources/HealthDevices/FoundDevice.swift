import GATTClient
import HealthReadings

/// A device that a search has heard.
public struct FoundDevice: Sendable, Hashable {
    /// What it says of itself.
    public var advertisement: Advertisement
    /// The catalogue's entry; nil for a bonded device that no entry describes.
    public var model: DeviceModel?
    /// The models it may be, of which a person has to say one when it is paired; empty where nothing is to be said, or it
    /// was.
    public var choices: [DeviceModel]

    /// Makes a find.
    public init(advertisement: Advertisement, model: DeviceModel?, choices: [DeviceModel] = []) {
        self.advertisement = advertisement
        self.model = model
        self.choices = choices
    }

    /// Whether the device says that it is in its pairing mode; `nil` where it says nothing of that.
    public var isInPairingMode: Bool? { OmronAdvertisement(advertisement)?.isPairing }
}
