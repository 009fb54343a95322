import HealthReadings
import Synchronization

/// The devices of which something was told already, so that it is told once as long as it stands.
final class ToldDevices: Sendable {
    private let told = Mutex<Set<DeviceAddress>>([])

    /// Notes that it is told of a device.
    ///
    /// - Returns: whether it was not told before.
    func insert(_ addresses: [DeviceAddress]) -> Bool {
        told.withLock { told in
            let isNew = told.isDisjoint(with: addresses)
            told.formUnion(addresses)
            return isNew
        }
    }

    /// Forgets all devices but these: of the others it is to be told anew.
    func keep(only addresses: Set<DeviceAddress>) { told.withLock { $0.formIntersection(addresses) } }
}
