import Foundation
import Testing

@testable import LocalAccess

@Suite("Codes of links to the page") struct PageLinkDeskTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let start = ContinuousClock.now

    @Test("a code has 128 bits and is good once, for five minutes by a clock that nobody sets")
    func once() {
        let desk = PageLinkDesk()
        let ticket = desk.issue(now: now, clock: start)
        #expect(ticket.code.count == 32 && ticket.code.allSatisfy(\.isHexDigit) && ticket.expiresAt == now + 300)
        #expect(desk.redeem(ticket.code, clock: start + .seconds(299)))
        #expect(!desk.redeem(ticket.code, clock: start))
        let late = desk.issue(now: now, clock: start)
        #expect(!desk.redeem(late.code, clock: start + .seconds(300)))
        #expect(!desk.redeem(late.code, clock: start))
    }

    @Test("a wrong code is refused, and takes nobody's away", arguments: ["", "x", String(repeating: "0", count: 32)])
    func wrong(_ stray: String) {
        let desk = PageLinkDesk()
        let ticket = desk.issue(now: now)
        for _ in 0..<100 { #expect(!desk.redeem(stray)) }
        #expect(!desk.redeem(ticket.code.uppercased() + "x") && !desk.redeem(String(ticket.code.dropLast())))
        #expect(desk.redeem(ticket.code))
    }

    @Test("one person's link ends nobody else's; of too many the oldest goes")
    func several() {
        let desk = PageLinkDesk()
        let codes = (0...PageLinkDesk.capacity).map { _ in desk.issue(now: now).code }
        #expect(Set(codes).count == codes.count)
        #expect(!desk.redeem(codes[0]))
        #expect(codes.dropFirst().allSatisfy { desk.redeem($0) })
    }
}
