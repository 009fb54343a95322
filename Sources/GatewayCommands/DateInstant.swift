import Foundation
import HealthReadings

extension Date {
    /// The same moment, to the second.
    package var instant: Instant { Instant(seconds: Int64(timeIntervalSince1970.rounded(.down))) }
}
