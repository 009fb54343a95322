import GATTClient
import HealthReadings

/// A device that a search has heard.
public struct FoundDevice: Sendable, Hashable {
    /// What it says of itself.
    public var advertisement: Advertisement
    /// The catalogue's entry; nil for a bonded device that no entry describes.
    public var model: DeviceModel?

    /// Makes a find.
    public init(advertisement: Advertisement, model: DeviceModel?) {
        self.advertisement = advertisement
        self.model = model
    }
}
