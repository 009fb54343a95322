import GATTClient
import HealthReadings

/// Reads paired meters whenever they show up, for as long as it runs.
///
/// ```swift
/// let schedule = MeterSchedule(manager)
/// await schedule.run { event in
///     if case .transfer(_, .stored(let outcomes)) = event { print(outcomes) }
/// }
/// ```
///
/// A meter that was read is left alone until it has gone and come again, or a quiet time has passed while it stays in
/// reach; one whose reading failed is tried again after 10 s, 30 s, 2 and 10 minutes; one whose transfer was cut is
/// read on as soon as it is heard. One that has sent nothing because it may be measuring is connected again soon, for some
/// minutes. Two are read at the same time, and few others whose transfers go on for long; connecting is put in order by the
/// radio. A meter that is away costs nothing. An adapter that goes, or a service that is restarted, is waited for.
///
/// A device that is never connected (``DeviceModel/isOnlyHeard``) is listened to, and what it says of a measurement stored.
///
/// What is called on the same ``DevicesManager`` goes first: a device that is being paired is not read meanwhile, and a
/// device that is paired or unpaired is watched for, or no longer, at once.
public struct MeterSchedule: Sendable {
    private let manager: DevicesManager
    private let pace: SchedulePace

    /// A schedule for the paired meters of a manager.
    public init(_ manager: DevicesManager, pace: SchedulePace = SchedulePace()) {
        self.manager = manager
        self.pace = pace
    }

    /// Runs until its task is cancelled. Transfers that are going on are then ended as ``MeterReader`` ends them, and
    /// waited for.
    ///
    /// - Parameter report: told what happens; events of one meter come in order, and the transfer that an event belongs
    ///   to goes on when it returns.
    public func run(_ report: @escaping @Sendable (ScheduleEvent) async -> Void = { _ in }) async {
        let (signals, inbox) = AsyncStream.makeStream(of: ScheduleSignal.self)
        let unsubscribe = manager.changes.subscribe { inbox.yield(.changed($0)) }
        manager.faultBoard.beginSchedule()
        defer {
            manager.faultBoard.endSchedule()
            unsubscribe()
        }
        await withDiscardingTaskGroup { group in
            group.addTask { [radio = manager.radio] in
                for await state in radio.adapterStates() { inbox.yield(.adapter(state)) }
            }
            var course = ScheduleCourse(manager, pace: pace, inbox: inbox, report: report)
            for await signal in signals { await course.take(signal, &group) }
            await course.stop()
            group.cancelAll()
        }
    }
}

/// What a schedule is told of, one after the other.
enum ScheduleSignal: Sendable {
    case adapter(AdapterState)
    case changed(ManagerChanges.Change)
    /// Watching has begun for these meters.
    case watching(watch: Int, Set<DeviceAddress>)
    case heard(watch: Int, any Peripheral)
    /// A device that is never connected has said something.
    case said(Advertisement)
    /// Watching has ended by itself.
    case watchEnded(watch: Int, any Error)
    /// It is time to watch again.
    case watchAgain(watch: Int)
    /// Watching has gone on for a while.
    case watchHolds(watch: Int)
    case woke(DeviceAddress, ticket: Int)
    case listened(DeviceAddress, (any Peripheral)?)
    case wasOccupied(DeviceAddress)
    /// Whoever had the device when it could not be read has let go of it.
    case freed(DeviceAddress)
}
