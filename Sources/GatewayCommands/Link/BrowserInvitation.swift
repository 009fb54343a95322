import HealthReadings

/// What a person is told while a page waits for them in a browser.
struct BrowserInvitation {
    /// The page's address.
    var page: String
    /// What a JSON line calls the address.
    var member: String
    /// What is being connected.
    var whom: String
    /// How long the command waits.
    var seconds: Int
    /// The port that the browser is sent back to.
    var port: Int

    /// The words; with JSON a line of the log's form, which alone has the address then.
    func text(json: Bool) -> String {
        let words =
            "open this page in a browser on this machine to connect \(whom); waiting \(seconds) s. From another "
            + "machine, first: ssh -L \(port):127.0.0.1:\(port) THIS-MACHINE"
        guard json else { return words }
        return JSONValue.object([
            "at": .string(Instant.systemClock.flooredToSecond.description), "level": "notice",
            "message": .string(words), member: .string(page),
        ]).text
    }
}
