import GATTClient
import HealthReadings

/// What happens while meters are read as they show up.
public enum ScheduleEvent: Sendable {
    /// The adapter can be used, or no longer and why: told once, each time it changes. What can be done about it is
    /// done without a person.
    case adapter(AdapterState)
    /// A paired meter has come into reach. The model is nil where the catalogue does not know it.
    case appeared(DeviceAddress, DeviceModel?)
    /// What happens in the transfer of a meter.
    case transfer(DeviceAddress, TransferEvent)
    /// A contact did not bring what it should. It is tried again after `nextTryAfter`, where the meter is still in
    /// reach then; nil: as soon as it shows up.
    case failed(DeviceAddress, ContactFailure, nextTryAfter: Duration?)
}
