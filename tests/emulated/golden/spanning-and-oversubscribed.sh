ip -batch - <<END
netns add pl-lab-net
netns add pl-lab-host0
netns add pl-lab-host0-device0
netns add pl-lab-host0-device1
END
ip -n pl-lab-net -batch - <<END
link add pl-core type bridge forward_delay 0 mcast_snooping 0
link set pl-core up
link add pl-h0 type bridge forward_delay 0 mcast_snooping 0
link set pl-h0 up
link add pl-h0s0 type bridge forward_delay 0 mcast_snooping 0
link set pl-h0s0 up
link add pl-h0s1 type bridge forward_delay 0 mcast_snooping 0
link set pl-h0s1 up
link add pl-h0x type bridge forward_delay 0 mcast_snooping 0
link set pl-h0x up
link add pl-h0t type bridge forward_delay 0 mcast_snooping 0
link set pl-h0t up
link set lo up
addr add 10.77.7.254/24 dev pl-core
link add pl-h0s0r type veth peer name pl-h0s0u
link set pl-h0s0r master pl-h0 up
link set pl-h0s0u master pl-h0s0 up
link add pl-h0s1r type veth peer name pl-h0s1u
link set pl-h0s1r master pl-h0 up
link set pl-h0s1u master pl-h0s1 up
link add pl-h0d0x type veth peer name eth1 netns pl-lab-host0-device0
link set pl-h0d0x master pl-h0x up
link add pl-h0d0 type veth peer name eth0 netns pl-lab-host0-device0
link set pl-h0d0 master pl-h0s0 up
link add pl-h0d1x type veth peer name eth1 netns pl-lab-host0-device1
link set pl-h0d1x master pl-h0x up
link add pl-h0d1 type veth peer name eth0 netns pl-lab-host0-device1
link set pl-h0d1 master pl-h0s1 up
link add pl-h0m type veth peer name eth0 netns pl-lab-host0
link set pl-h0m master pl-h0 up
link add pl-h0c type veth peer name pl-h0n
link set pl-h0c master pl-h0t up
link set pl-h0n master pl-h0s0 up
link add pl-h0tc type veth peer name pl-h0tu
link set pl-h0tc master pl-core up
link set pl-h0tu master pl-h0t up
END
tc -n pl-lab-net -batch - <<END
qdisc add dev pl-h0s0u root tbf rate 300000000bit burst 128kb latency 20ms
qdisc add dev pl-h0s0r root tbf rate 300000000bit burst 128kb latency 20ms
qdisc add dev pl-h0s1u root tbf rate 250000000bit burst 128kb latency 20ms
qdisc add dev pl-h0s1r root tbf rate 250000000bit burst 128kb latency 20ms
qdisc add dev pl-h0d0x root tbf rate 400000000bit burst 128kb latency 20ms
qdisc add dev pl-h0d0 root tbf rate 300000000bit burst 128kb latency 20ms
qdisc add dev pl-h0d1x root tbf rate 400000000bit burst 128kb latency 20ms
qdisc add dev pl-h0d1 root tbf rate 250000000bit burst 128kb latency 20ms
qdisc add dev pl-h0m root tbf rate 550000000bit burst 128kb latency 20ms
qdisc add dev pl-h0n root tbf rate 200000000bit burst 128kb latency 20ms
qdisc add dev pl-h0c root tbf rate 200000000bit burst 128kb latency 20ms
qdisc add dev pl-h0tu root tbf rate 100000000bit burst 128kb latency 20ms
qdisc add dev pl-h0tc root tbf rate 100000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host0 -batch - <<END
qdisc add dev eth0 root tbf rate 550000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host0-device0 -batch - <<END
qdisc add dev eth1 root tbf rate 400000000bit burst 128kb latency 20ms
qdisc add dev eth0 root tbf rate 300000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host0-device1 -batch - <<END
qdisc add dev eth1 root tbf rate 400000000bit burst 128kb latency 20ms
qdisc add dev eth0 root tbf rate 250000000bit burst 128kb latency 20ms
END
ip -n pl-lab-host0 -batch - <<END
link set lo up
addr add 10.77.7.1/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.1 congctl reno
END
ip -n pl-lab-host0-device0 -batch - <<END
link set lo up
addr add 10.77.7.2/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.2 congctl reno
link set eth1 up
route add 10.77.7.3/32 dev eth1 src 10.77.7.2 congctl reno
END
ip -n pl-lab-host0-device1 -batch - <<END
link set lo up
addr add 10.77.7.3/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.3 congctl reno
link set eth1 up
route add 10.77.7.2/32 dev eth1 src 10.77.7.3 congctl reno
END
