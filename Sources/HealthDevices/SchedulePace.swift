/// How often a meter is read that stays in reach, and how many at a time.
public struct SchedulePace: Sendable {
    /// How many meters are read at the same time, besides ``longTransfersAtOnce``. A controller that holds one connection
    /// only refuses the second, which is then tried again.
    public var transfersAtOnce = 2
    /// How long a transfer may keep others from being begun. One that goes on for longer may go on for very long: a device
    /// sends for as long as it is worn, or has not measured yet.
    public var turnTime: Duration = .seconds(30)
    /// How many transfers that have gone on for longer than ``turnTime`` don't count among ``transfersAtOnce``. Adapters hold
    /// five to seven connections at a time.
    public var longTransfersAtOnce = 3
    /// How long a meter of no listed model is left alone after it was read, while it stays in reach. Listed ones:
    /// ``DeviceModel/quietTime``. One that has gone and come again is read at once.
    public var quietTime: Duration = .seconds(300)
    /// How long after a contact a meter that is heard is taken never to have gone.
    public var settlingTime: Duration = .seconds(20)
    /// How long a meter is left alone after its first, second, … failure in a row; the last holds for all others.
    public var backOff: [Duration] = [.seconds(10), .seconds(30), .seconds(120), .seconds(600)]
    /// How long a meter that is due is listened for: one that has gone meanwhile is left alone until it comes again.
    public var listeningTime: Duration = .seconds(10)
    /// How long after a meter was heard that says it has nothing new it is looked at again: what is heard first may be what
    /// it said before it measured. Each further look comes after twice the time, ``settlingTime`` at most. So is a device
    /// connected again that has sent nothing because it may be measuring.
    public var secondLook: Duration = .seconds(3)
    /// For how long a meter is looked at that stays in reach and says it has nothing new, or sends nothing.
    public var lookingTime: Duration = .seconds(300)
    /// How long a meter is believed that it has nothing new: after that it is read all the same.
    public var beliefTime: Duration = .seconds(86_400)
    /// What makes each wait a little different, so that two meters do not fall into step.
    public var jitter: @Sendable (Duration) -> Duration = { $0 * Double.random(in: 0.8...1.2) }

    /// The usual pace.
    public init() {}

    func delay(afterFailures failures: Int) -> Duration {
        guard !backOff.isEmpty else { return .zero }
        return jitter(backOff[min(max(failures - 1, 0), backOff.count - 1)])
    }
}
